#include "cli/run/account.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace plimsoll::cli {
namespace {

int exit_status(const batch::RunCounts& counts) {
  if (counts.ending == batch::Ending::stalled) return static_cast<int>(ExitCode::device_lost);
  if (counts.ending != batch::Ending::complete) {
    return static_cast<int>(ExitCode::stopped_resumable);
  }
  return static_cast<int>(counts.failed > 0 ? ExitCode::some_lines_failed : ExitCode::done);
}

// What the card's driver says of this process, beside what the launch was allowed. Nothing is taken
// after the launch, so the end shows the peak.
void add_card(const Launch& launch, batch::MemoryReport& memory) {
  const DeviceSetup& setup = launch.setup;
  const backend::DeviceMemory now =
      backend::device_memory(*launch.backend, launch.spec, setup.graphs);
  memory.lines.push_back({"beside the arena", setup.budget.outside, std::nullopt, std::nullopt});
  memory.planned += setup.budget.outside;
  // Our own count has the arena alone, which is measured anyway.
  if (now.source == backend::MemorySource::allocations) return;
  const uint64_t arena = launch.engine->plan().total_bytes;
  memory.lines.back().measured = now.process - std::min(now.process, arena);
  memory.measured_peak = now.process;
  memory.device = {.name = launch.device.card->name,
                   .total = now.total,
                   .budget = setup.budget.ceiling,
                   .free_at_start = setup.at_start.free,
                   .peak = now.process};
}

void add_ranks(const Launch& launch, batch::RunReport& report) {
  report.memory.peak_rss = batch::peak_rss_bytes();
  const auto tensor = static_cast<size_t>(launch.tensor_ranks);
  const size_t stages = launch.stages.size();
  for (size_t i = 0; i < launch.engine->ranks(); ++i) {
    batch::RankReport rank =
        batch::add_rank(report.memory, launch.engine->measured(i), fmt::format("rank {}: ", i));
    const shard::StageModel& stage = launch.stages[i / tensor % stages];
    rank.copy = static_cast<int64_t>(i / (tensor * stages));
    rank.tensor_rank = static_cast<int64_t>(i % tensor);
    rank.tensor_ranks = launch.tensor_ranks;
    rank.first_layer = stage.first_layer;
    rank.layers = std::ssize(stage.spec.layers);
    if (!launch.sources.empty()) rank.read = launch.sources[i]->bytes_read();
    report.ranks.push_back(rank);
  }
}

}  // namespace

batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             batch::RunCounts counts) {
  batch::RunReport report;
  report.version = PLIMSOLL_VERSION;
  report.model = options.model;
  report.device = launch.device.card ? launch.device.card->name : "cpu";
  report.isa = backend::isa_name(launch.device.cpu.isa);
  report.threads = launch.device.cpu.threads;
  report.dtype = torch_name(launch.dtype);
  report.seed = options.seed;
  report.exit_status = exit_status(counts);
  report.counts = std::move(counts);
  report.plan = launch.engine->plan();
  report.notes = launch.setup.notes;
  return report;
}

void add_measurements(const Launch& launch, batch::RunReport& report) {
  report.stats = launch.engine->stats();
  if (launch.engine->ranks() > 1) {
    add_ranks(launch, report);
  } else {
    report.memory = batch::host_memory_report(launch.engine->measured(), batch::peak_rss_bytes());
  }
  if (launch.device.card) add_card(launch, report.memory);
}

void audit(const batch::RunCounts& counts, const batch::RunFiles& files) {
  const uint64_t done = counts.ok + counts.failed;
  if (counts.lines != done + counts.abandoned) {
    fail(ExitCode::bug, "{} lines came in, but {} were answered, {} failed and {} not finished",
         counts.lines, counts.ok, counts.failed, counts.abandoned);
  }
  const std::optional<uint64_t> records = files.records();
  if (records && *records != done) {
    fail(ExitCode::bug, "{} lines were answered or failed, but {} has {} records", done,
         files.kept_at(), *records);
  }
}

}  // namespace plimsoll::cli
