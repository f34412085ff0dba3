#include "cli/run/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "files/names.h"
#include "files/output_file.h"

namespace plimsoll::cli {
namespace {

int exit_status(const batch::RunCounts& counts) {
  if (counts.ending == batch::Ending::stalled) return static_cast<int>(ExitCode::device_lost);
  if (counts.ending != batch::Ending::complete) {
    return static_cast<int>(ExitCode::stopped_resumable);
  }
  return status_of(counts.failed);
}

/// Memory of a process on cards, by the cards' driver: the sum over its cards, and the fullest one.
struct CardsAccount {
  uint64_t all = 0;
  uint64_t peak = 0, total = 0;
};

// The driver's account of this process's cards. Nothing is taken after the launch, so the end shows
// the peak. nullopt where the driver has no numbers by process: our own count has the arenas alone,
// which are measured anyway.
std::optional<CardsAccount> cards_account(const Launch& launch) {
  const RankBackends backends = launch.backends();
  const auto each = static_cast<size_t>(launch.device.ranks_per_card);
  CardsAccount account;
  for (size_t rank = 0; rank < backends.size(); rank += each) {
    const backend::DeviceMemory now = backend::device_memory(
        *backends[rank], launch.resolved.spec, launch.setup.graphs, launch.device.nccl_shape);
    if (now.source == backend::MemorySource::allocations) return std::nullopt;
    account.all += now.process;
    if (now.process < account.peak) continue;
    account.peak = now.process;
    account.total = now.total;
  }
  return account;
}

// Adds memory outside the arenas to the report, and the fullest card: what the launch was allowed,
// and what each process's `cards` show (nullopt: unknown).
void add_cards(const Launch& launch, const std::vector<std::optional<CardsAccount>>& cards,
               batch::MemoryReport& memory) {
  const DeviceSetup& setup = launch.setup;
  const uint64_t outside = setup.budget.outside * launch.backends().size() * cards.size();
  uint64_t arenas = 0;
  for (const batch::MemoryLine& line : memory.lines) arenas += line.measured.value_or(0);
  memory.lines.push_back({"beside the arena", outside, std::nullopt, std::nullopt});
  memory.planned += outside;
  CardsAccount sum;
  for (const std::optional<CardsAccount>& account : cards) {
    if (!account) return;
    sum.all += account->all;
    if (account->peak < sum.peak) continue;
    sum.peak = account->peak;
    sum.total = account->total;
  }
  memory.lines.back().measured = sum.all - std::min(sum.all, arenas);
  memory.measured_peak = sum.all;
  memory.device = {
      .name = launch.device.card->name,
      .total = sum.total,
      .budget = setup.budget.ceiling * static_cast<uint64_t>(launch.device.ranks_per_card),
      .free_at_start = setup.at_start.free,
      .peak = sum.peak};
}

Json to_json(const std::optional<CardsAccount>& cards) {
  if (!cards) return nullptr;
  return {{"all", cards->all}, {"peak", cards->peak}, {"total", cards->total}};
}

std::optional<CardsAccount> to_cards(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return CardsAccount{json["all"].get<uint64_t>(), json["peak"].get<uint64_t>(),
                      json["total"].get<uint64_t>()};
}

/// Regions of memory that one rank has taken, and the bytes of the checkpoint that it has read.
struct RankAccount {
  std::vector<engine::MeasuredRegion> regions;
  std::optional<uint64_t> read;
};
using RankAccounts = std::map<size_t, RankAccount>;  // by rank

/// Accounts of the ranks that this process has.
template <typename Measured>
RankAccounts own_accounts(const Launch& launch, const engine::Processes* processes,
                          const Measured& measured) {
  const auto of_replica = static_cast<size_t>(launch.ranks_of_replica());
  const auto own = engine::local_ranks(processes, static_cast<int64_t>(of_replica));
  const size_t backends = launch.others.size() + 1;
  const size_t ranks = backends / static_cast<size_t>(own.size()) * of_replica;
  RankAccounts accounts;
  for (size_t i = 0; i < ranks; ++i) {
    if (!own.has(static_cast<int64_t>(i % of_replica))) continue;
    RankAccount& account = accounts[i];
    account.regions = measured(i);
    if (!launch.sources.empty()) account.read = launch.sources[i]->bytes_read();
  }
  return accounts;
}

Json to_json(const RankAccounts& accounts) {
  Json ranks = Json::array();
  for (const auto& [rank, account] : accounts) {
    Json regions = Json::array();
    for (const engine::MeasuredRegion& region : account.regions) {
      regions.push_back({{"name", region.name},
                         {"planned", region.planned_bytes},
                         {"placed", region.placed_bytes},
                         {"used", region.used_bytes ? Json(*region.used_bytes) : Json()}});
    }
    ranks.push_back({{"rank", rank},
                     {"regions", std::move(regions)},
                     {"read", account.read ? Json(*account.read) : Json()}});
  }
  return ranks;
}

// Adds the accounts of ranks in another process, which runs the same program.
void add_accounts(const Json& ranks, RankAccounts& accounts) {
  const auto bytes_of = [](const Json& number) {
    return number.is_null() ? std::nullopt : std::optional(number.get<size_t>());
  };
  for (const Json& rank : ranks) {
    RankAccount& account = accounts[rank["rank"].get<size_t>()];
    account.read = bytes_of(rank["read"]);
    for (const Json& region : rank["regions"]) {
      account.regions.push_back({region["name"].get<std::string>(), region["planned"].get<size_t>(),
                                 region["placed"].get<size_t>(), bytes_of(region["used"])});
    }
  }
}

void add_ranks(const Launch& launch, const RankAccounts& accounts, batch::RunReport& report) {
  report.memory.peak_rss = batch::peak_rss_bytes();
  const auto tensor = static_cast<size_t>(launch.tensor_ranks());
  const size_t stages = launch.resolved.stages.size();
  for (const auto& [i, account] : accounts) {
    batch::RankReport rank =
        batch::add_rank(report.memory, account.regions, fmt::format("rank {}: ", i));
    const shard::StageModel& stage = launch.resolved.stages[i / tensor % stages];
    rank.copy = static_cast<int64_t>(i / (tensor * stages));
    rank.tensor_rank = static_cast<int64_t>(i % tensor);
    rank.tensor_ranks = launch.tensor_ranks();
    rank.first_layer = stage.first_layer;
    rank.layers = std::ssize(stage.spec.layers);
    rank.read = account.read;
    report.ranks.push_back(rank);
  }
}

}  // namespace

int status_of(uint64_t failed_lines) {
  return static_cast<int>(failed_lines > 0 ? ExitCode::some_lines_failed : ExitCode::done);
}

batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             const batch::OrderChoice& order, batch::RunCounts counts) {
  batch::RunReport report;
  report.version = PLIMSOLL_VERSION;
  report.model = options.model;
  report.device = launch.device.card ? launch.device.card->name : "cpu";
  report.isa = backend::isa_name(launch.device.cpu.isa);
  report.threads = launch.device.cpu.threads;
  report.dtype = torch_name(launch.resolved.dtype);
  report.seed = options.seed;
  report.exit_status = exit_status(counts);
  report.counts = std::move(counts);
  report.order = order;
  report.plan = launch.engine->plan();
  report.limits = launch.limits;
  report.notes = launch.setup.notes;
  if (const auto& compiler = launch.prompts.grammars) {
    report.grammars = {compiler->compiled(), compiler->seconds()};
  }
  return report;
}

std::string account_of_server(const Launch& launch, const processes::Fleet& fleet) {
  const RankAccounts ranks =
      own_accounts(launch, &fleet, [&](size_t rank) { return launch.server->measured(rank); });
  Json account = {{"ranks", to_json(ranks)}, {"cards", nullptr}};
  if (launch.device.card) account["cards"] = to_json(cards_account(launch));
  return account.dump();
}

void add_measurements(const Launch& launch, processes::Fleet* fleet, batch::RunReport& report) {
  report.stats = launch.engine->stats();
  std::vector<std::optional<CardsAccount>> cards;
  if (launch.device.card) cards.push_back(cards_account(launch));
  if (launch.engine->ranks() > 1) {
    RankAccounts accounts =
        own_accounts(launch, fleet, [&](size_t rank) { return launch.engine->measured(rank); });
    if (fleet != nullptr) launch.engine->stop_servers();
    for (int64_t other = 1; fleet != nullptr && other < fleet->count(); ++other) {
      const Json theirs = parse_json<Json>(fleet->receive_account(other));
      add_accounts(theirs["ranks"], accounts);
      cards.push_back(to_cards(theirs["cards"]));
    }
    add_ranks(launch, accounts, report);
  } else {
    report.memory = batch::host_memory_report(launch.engine->measured(), batch::peak_rss_bytes());
  }
  if (launch.device.card) add_cards(launch, cards, report.memory);
}

void write_report(const RunOptions& options, std::string_view text) {
  if (options.report.empty()) return;
  try {
    files::write_file(options.report, text);
  } catch (const Error& error) {
    fail(error.code(), "{}; only the report is missing{}", error.what(),
         files::is_stream(options.output)
             ? ""
             : ", which the same command writes once there is room (or with another --report)");
  }
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
