#include "shard/writer.h"

#include <algorithm>
#include <barrier>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/size_text.h"
#include "memory/available.h"
#include "shard/output_folder.h"
#include "shard/ranks/rank_file.h"
#include "shard/verify.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBuffers = size_t{64} << 20;  // of all ranks' files together, twice
constexpr size_t kLeastBuffer = size_t{1} << 16;
constexpr size_t kLargestBuffer = size_t{4} << 20;
constexpr int64_t kSlack = int64_t{4}
                           << 20;  // for records, folders and the file system's own needs

/// Half of what buffers may take: less where a control group leaves little.
size_t all_buffers() {
  return std::min(kBuffers, static_cast<size_t>(memory::available_memory().bytes) / 8);
}

/// One part of one stage on some of the ranks. The workers go through the tensors side by side, so
/// that what one rank reads of a checkpoint tensor is still in the page cache for the next.
class PartWriter {
 public:
  PartWriter(const Job& job, const PartPlan& part, const std::vector<std::string>& names,
             std::vector<int64_t> ranks, OutputFolder& folder)
      : job_(job), part_(part), ranks_(std::move(ranks)) {
    const size_t buffer = std::clamp(all_buffers() / ranks_.size(), kLeastBuffer, kLargestBuffer);
    for (const std::string& name : names) files_.emplace_back(folder, name, part.bytes(), buffer);
  }

  void write(int threads, const std::function<void(int64_t)>& advance) {
    const auto count = std::clamp<size_t>(static_cast<size_t>(threads), 1, ranks_.size());
    std::barrier barrier(static_cast<std::ptrdiff_t>(count));
    {
      std::vector<std::jthread> workers;
      for (size_t i = 0; i < count; ++i) {
        const auto run = [&, i] {
          try {
            work(i, count, barrier, advance);
          } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
            failed_ = true;
          }
          barrier.arrive_and_drop();
        };
        try {
          workers.emplace_back(run);
        } catch (const std::system_error&) {  // the system has no more threads
          const std::lock_guard lock(mutex_);
          failure_ = std::current_exception();
          failed_ = true;
          for (size_t missing = i; missing < count; ++missing) barrier.arrive_and_drop();
          break;
        }
      }
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  [[nodiscard]] std::deque<RankFile>& files() { return files_; }

 private:
  void work(size_t first, size_t step, std::barrier<>& barrier,
            const std::function<void(int64_t)>& advance) {
    for (size_t i = first; i < files_.size(); i += step) {
      files_[i].add(part_.header);
      files_[i].end_tensor();
    }
    for (const ShardTensor* tensor : part_.tensors) {
      for (size_t i = first; i < files_.size(); i += step) {
        stream_tensor(job_.source(), *tensor, ranks_[i], job_.layout().tensor_parallel, files_[i]);
        files_[i].end_tensor();
        advance(tensor->bytes());
      }
      barrier.arrive_and_wait();
      if (failed_) return;
    }
    for (size_t i = first; i < files_.size(); i += step) files_[i].finish();
  }

  const Job& job_;
  const PartPlan& part_;
  std::vector<int64_t> ranks_;
  std::deque<RankFile> files_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

// vLLM's loader reads every file that its pattern matches.
void check_stale(const Job& job, const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> ours = job.file_names();
  std::ranges::sort(ours);
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors") || std::ranges::binary_search(ours, name)) continue;
    fail(ExitCode::foreign_output,
         "{} holds {}, which is none of this job's files and which vLLM might read; remove it",
         folder.string(), name);
  }
}

/// What an earlier run of a job left in the output folder.
struct EarlierRun {
  bool finished = false;  // the folder already holds all of the job
  std::map<std::string, FileRecord> files = {};
};

// Refuses a folder that holds anything but an earlier run of the same job.
EarlierRun check_contents(const Job& job, const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  if (names.empty()) return {};
  const auto has = [&](const char* name) { return std::ranges::binary_search(names, name); };
  const bool finished = has(kSidecar);
  if (!finished && !has(kJournal)) {
    fail(ExitCode::foreign_output, "{} is not empty ({}); choose another folder", folder.string(),
         names.front());
  }
  Record earlier = read_record(folder / (finished ? kSidecar : kJournal));
  const Json wanted = job.description();
  for (const auto& [key, value] : wanted.items()) {
    const bool same =
        earlier.job.is_object() && earlier.job.contains(key) && earlier.job[key] == value;
    if (same) continue;
    fail(ExitCode::foreign_output,
         "{} holds the shards of another job ({} differs); choose another folder", folder.string(),
         key);
  }
  check_stale(job, folder, names);
  return {finished, std::move(earlier.files)};
}

class Writer {
 public:
  Writer(const Job& job, OutputFolder& folder, const WriteOptions& options)
      : job_(job), folder_(folder), options_(options) {
    record_.job = job.description();
    EarlierRun earlier = check_contents(job, folder_.path());
    finished_ = earlier.finished;
    earlier_ = std::move(earlier.files);
    folder_.remove_temporaries();
  }

  WriteResult run() {
    find_finished();
    check_side_files();
    check_space();
    if (result_.written_bytes > 0 || !finished_) write_journal();
    for (size_t stage = 0; stage < job_.stages().size(); ++stage) {
      for (size_t part = 0; part < job_.stages()[stage].parts.size(); ++part) {
        write_part(stage, part);
      }
    }
    for (const std::string& name : side_files(job_.source().folder())) {
      if (name == kSidecar || name == kJournal) continue;
      folder_.copy(job_.source().folder() / name, name);
    }
    record_.side_files = side_records(folder_.path());
    record_.left_out = job_.source().unplaced();
    job_.source().check_unchanged();
    if (!finished_) {
      write_journal();
      folder_.write_file(kSidecar, record_text(record_, options_.tool_version));
    }
    folder_.remove(kJournal);
    return result_;
  }

 private:
  template <typename Visit>
  void for_each_file(Visit visit) {
    for (size_t stage = 0; stage < job_.stages().size(); ++stage) {
      const auto& parts = job_.stages()[stage].parts;
      for (size_t part = 0; part < parts.size(); ++part) {
        for (int64_t rank = 0; rank < job_.layout().tensor_parallel; ++rank) {
          visit(parts[part], job_.file_name(stage, rank, part));
        }
      }
    }
  }

  // Finished files of an earlier run count when they still have their digest.
  void find_finished() {
    for_each_file([&](const PartPlan& part, const std::string& name) {
      check_stop();
      const auto known = earlier_.find(name);
      if (known == earlier_.end() || !is_whole(part, name, known->second)) {
        finished_ = false;
        result_.written_bytes += part.bytes();
        return;
      }
      record_.files[name] = known->second;
      result_.kept_bytes += part.bytes();
      advance(part.bytes());
    });
  }

  [[nodiscard]] bool is_whole(const PartPlan& part, const std::string& name,
                              const FileRecord& known) const {
    std::error_code error;
    const fs::path path = folder_.path() / name;
    if (known.bytes != part.bytes() || !folder_.is_file(name)) return false;
    if (fs::file_size(path, error) != static_cast<uint64_t>(known.bytes) || error) return false;
    return digest_file(path, tensor_ends(part)).digest == known.digest;
  }

  // Before the ranks, which may take an hour.
  void check_side_files() const {
    for (const std::string& name : side_files(job_.source().folder())) {
      if (name != kSidecar && name != kJournal) check_copyable(job_.source().folder() / name);
    }
  }

  void check_space() const {
    uint64_t needed = static_cast<uint64_t>(result_.written_bytes + kSlack);
    for (const std::string& name : side_files(job_.source().folder())) {
      const fs::path path = job_.source().folder() / name;
      std::error_code error;
      if (fs::is_regular_file(path, error)) needed += fs::file_size(path, error);
      if (!fs::is_directory(path, error)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
        if (entry.is_regular_file(error)) needed += entry.file_size(error);
      }
    }
    const uint64_t free = folder_.free_bytes();
    if (result_.written_bytes == 0 || needed <= free) return;
    fail(ExitCode::output_unwritable, "{}: {} are needed and {} are free there",
         folder_.path().string(), size_text(needed), size_text(free));
  }

  void write_journal() {
    folder_.write_file(kJournal, record_text(record_, options_.tool_version));
  }

  void write_part(size_t stage, size_t index) {
    const PartPlan& part = job_.stages()[stage].parts[index];
    std::vector<int64_t> ranks;
    std::vector<std::string> names;
    for (int64_t rank = 0; rank < job_.layout().tensor_parallel; ++rank) {
      std::string name = job_.file_name(stage, rank, index);
      if (record_.files.contains(name)) continue;
      ranks.push_back(rank);
      names.push_back(std::move(name));
    }
    if (ranks.empty()) return;
    PartWriter writer(job_, part, names, ranks, folder_);
    writer.write(threads(), [this](int64_t bytes) {
      check_stop();
      advance(bytes);
    });
    for (size_t i = 0; i < names.size(); ++i) {
      writer.files()[i].publish();
      record_.files[names[i]] = writer.files()[i].record();
    }
    write_journal();
  }

  [[nodiscard]] int threads() const {
    if (options_.threads > 0) return options_.threads;
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }

  void check_stop() const {
    if (options_.stop == nullptr || !options_.stop->load()) return;
    fail(ExitCode::stopped_resumable,
         "stopped; finished files stay in {}, and the same command goes on",
         folder_.path().string());
  }

  void advance(int64_t bytes) {
    const std::lock_guard lock(progress_mutex_);
    done_ += bytes;
    if (options_.progress) options_.progress(done_);
  }

  const Job& job_;
  OutputFolder& folder_;
  const WriteOptions& options_;
  Record record_;
  std::map<std::string, FileRecord> earlier_;
  bool finished_ = false;  // the folder already holds all of the job
  WriteResult result_;
  std::mutex progress_mutex_;
  int64_t done_ = 0;
};

}  // namespace

void check_output(const Job& job, const fs::path& output) {
  check_apart(job.source().folder(), output, "the source");
  if (check_place(output)) check_contents(job, fs::canonical(output));
}

WriteResult write_shards(const Job& job, const fs::path& output, const WriteOptions& options) {
  check_apart(job.source().folder(), output, "the source");
  OutputFolder folder(output);
  return Writer(job, folder, options).run();
}

}  // namespace plimsoll::shard
