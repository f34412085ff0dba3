#include "shard/source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <set>
#include <system_error>

#include "base/error.h"
#include "checkpoint/find_tensor.h"
#include "checkpoint/fused_experts.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/packed_weights.h"
#include "checkpoint/tied_head.h"
#include "model/config.h"
#include "model/input_norm.h"
#include "quantization/assign.h"
#include "shard/apart.h"
#include "shard/left_out.h"
#include "shard/quantized/implied_values.h"
#include "shard/quantized/quantized.h"
#include "shard/sha256.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    fail(ExitCode::checkpoint_unusable, "{}: {}", path.string(),
         std::generic_category().message(errno));
  }
  return status;
}

// The checkpoint was opened, so the header's length has been checked.
std::string header_digest(const checkpoint::MappedFile& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.head(sizeof length).data(), sizeof length);
  return sha256_hex(file.head(sizeof length + length));
}

// vLLM's loaders raise at a bias of experts' choice that they have no parameter for.
void refuse_unread(const checkpoint::Checkpoint& checkpoint, const model::ModelSpec& spec,
                   const model::WeightSpec& weight) {
  if (weight.kept != model::Kept::in_run || is_passed_over(spec, weight)) return;
  for (const model::Part& part : weight.parts) {
    if (checkpoint::find_tensor(checkpoint, spec, part.tensor) == nullptr) continue;
    fail(ExitCode::checkpoint_unusable,
         "the checkpoint holds tensor \"{}\", for which vLLM's {} with this config.json has no "
         "parameter; vLLM refuses it too",
         part.tensor, spec.architecture);
  }
}

}  // namespace

struct Source::File {
  fs::path path;
  uint64_t bytes = 0;
  int64_t modified = 0, changed = 0;  // ns since 1970
  uint64_t inode = 0;
  std::string digest;  // of the header; of a file without one all of it
  const checkpoint::MappedFile* map = nullptr;

  File(fs::path at, std::string digest_of, const checkpoint::MappedFile* mapped)
      : path(std::move(at)), digest(std::move(digest_of)), map(mapped) {
    const struct stat status = status_of(path);
    bytes = static_cast<uint64_t>(status.st_size);
    modified = nanoseconds(status.st_mtim);
    changed = nanoseconds(status.st_ctim);
    inode = status.st_ino;
  }
};

Source::Source(const fs::path& folder, const Release& release)
    : folder_(fs::canonical(folder)), spec_(std::make_unique<model::ModelSpec>()) {
  auto [config, spec] = model::read_model_folder(folder_);
  *spec_ = std::move(spec);
  if (!spec_->vllm.refused.empty()) {
    fail(ExitCode::checkpoint_unusable, "{}: {}, so there are no shards of it", folder_.string(),
         spec_->vllm.refused);
  }
  std::vector<std::string> texts = {kConfig};
  for (const auto& file : model::kQuantizationFiles) texts.emplace_back(file.name);
  if (!spec_->input_norm.empty())
    std::ranges::copy(model::kInputNormFiles, std::back_inserter(texts));
  for (const std::string& name : texts) {
    const fs::path file = folder_ / name;
    if (fs::exists(file)) files_.emplace_back(file, sha256_hex(read_text_file(file)), nullptr);
  }
  checkpoint_ = std::make_unique<checkpoint::Checkpoint>(checkpoint::Checkpoint::open(folder_));
  checkpoint::resolve_fused_experts(*checkpoint_, *spec_);
  resolve_head(release);
  quantization_ = spec_->quantization;
  set_apart(*spec_);
  if (!quantization_.empty()) quantize(config);
  reader_ = std::make_unique<checkpoint::WeightReader>(*checkpoint_, *spec_);
  check_implied_values(*reader_, *spec_);
  check_biases();
  if (quantization_ == "compressed-tensors") check_input_scales(*reader_, *spec_);
  std::set<const checkpoint::MappedFile*> maps;
  for (const auto& [name, tensor] : checkpoint_->tensors()) maps.insert(tensor.file);
  for (const checkpoint::MappedFile* map : maps) {
    files_.emplace_back(map->path(), header_digest(*map), map);
  }
  std::ranges::sort(files_, {}, &File::path);
}

void Source::resolve_head(const Release& release) {
  const bool tied = spec_->tied_head.has_value();
  const bool reads_head = release >= since::kOwnHead || spec_->vllm.never_ties;
  if (tied && reads_head) checkpoint::resolve_tied_head(*checkpoint_, *spec_);
  own_head_ = tied && !spec_->tied_head;
  const bool stored = own_head_ || (tied && spec_->tied_head->stored);
  if (tied && !stored && spec_->vllm.never_ties) {
    fail(ExitCode::checkpoint_unusable,
         "config.json ties the head to the token table, which vLLM's {} does not do, and {} holds "
         "no tensor \"{}\": vLLM would leave it uninitialised",
         spec_->architecture, folder_.string(), spec_->tied_head->tensor);
  }
  if (!spec_->vllm.no_own_head || !stored) return;
  fail(ExitCode::checkpoint_unusable,
       "{} holds a head beside its token table, for which vLLM's {} has no parameter; vLLM refuses "
       "it too",
       folder_.string(), spec_->architecture);
}

// `run` does without these; vLLM would leave them uninitialised.
void Source::check_biases() const {
  for (const model::WeightSpec& weight : spec_->weights) {
    refuse_unread(*checkpoint_, *spec_, weight);
    if (weight.kept != model::Kept::in_vllm) continue;
    for (const model::Part& part : weight.parts) {
      if (checkpoint::find_tensor(*checkpoint_, *spec_, part.tensor) != nullptr) continue;
      fail(ExitCode::checkpoint_unusable,
           "the checkpoint lacks tensor \"{}\", which vLLM has a parameter for with this "
           "config.json",
           part.tensor);
    }
  }
}

// True when all parts of a fused weight hold codes. Throws Error where only some do.
bool Source::holds_codes(const model::WeightSpec& weight) const {
  const quantization::FindStored find_stored = checkpoint::find_stored(*checkpoint_, *spec_);
  std::string whole, quantized;
  for (const model::Part& part : weight.parts) {
    if (!part.tensor.ends_with(".weight")) continue;
    const quantization::StoredMatrix matrix =
        quantization::stored_matrix(weight, part, find_stored);
    (quantization::holds_codes(matrix.find) ? quantized : whole) = matrix.module;
  }
  if (!whole.empty() && !quantized.empty()) {
    refuse_quantized(whole + " is whole and " + quantized +
                     " quantized, which are one layer in vLLM");
  }
  return !quantized.empty();
}

void Source::quantize(const Json& config) {
  const auto find = [this](const std::string& name) {
    return checkpoint::find_tensor(*checkpoint_, *spec_, name);
  };
  const StoredTensors stored{
      .is_plain =
          [&](const model::WeightSpec& weight) {
            return std::ranges::all_of(weight.parts, [&](const model::Part& part) {
              return find(part.tensor) != nullptr;
            });
          },
      .holds_codes = [this](const model::WeightSpec& weight) { return holds_codes(weight); },
      .has = [&](const std::string& name) { return present_.note(name, find(name) != nullptr); },
      .is_listed =
          [&](const std::string& name) {
            const checkpoint::TensorEntry* tensor = find(name);
            const bool listed = tensor != nullptr && tensor->shape == std::vector<int64_t>{1};
            return listed_.note(name, listed);
          }};
  quantize_weights(config, stored, *spec_);
}

Json Source::quantized_tensors() const {
  return {{"present", present_.patterns()}, {"listed", listed_.patterns()}};
}

Source::~Source() = default;

DType Source::dtype() const {
  return checkpoint::model_dtype(*checkpoint_, *spec_);
}

Json Source::identity() const {
  Json files = Json::array();
  for (const File& file : files_) {
    files.push_back({{"name", file.path.filename().string()},
                     {"bytes", file.bytes},
                     {"modified_ns", file.modified},
                     {file.map == nullptr ? "sha256" : "header_sha256", file.digest}});
  }
  return files;
}

std::vector<std::pair<std::string, std::string>> Source::spellings() const {
  std::set<std::pair<std::string, std::string>> used;
  const auto note = [&](const model::Part& part) {
    const checkpoint::TensorEntry* found =
        checkpoint::find_tensor(*checkpoint_, *spec_, part.tensor);
    if (found == nullptr || found->name == part.tensor) return;
    const std::string& stored = found->name;
    for (const auto& [first, second] : spec_->tensor_prefixes) {
      const bool is_this =
          part.tensor.starts_with(first) && second + part.tensor.substr(first.size()) == stored;
      if (is_this) used.emplace(first, second);
    }
  };
  // Tensors that stand under their own names though these begin with a prefix too (Idefics3's tower
  // beside its text).
  std::set<std::pair<std::string, std::string>> own;
  const auto note_own = [&](const model::Part& part) {
    const checkpoint::TensorEntry* found =
        checkpoint::find_tensor(*checkpoint_, *spec_, part.tensor);
    if (found == nullptr || found->name != part.tensor) return;
    for (const auto& [first, second] : used) {
      if (!part.tensor.starts_with(first)) continue;
      const size_t dot = part.tensor.find('.', first.size());
      const std::string module =
          dot == std::string::npos ? part.tensor : part.tensor.substr(0, dot + 1);
      own.emplace(module, module);
    }
  };
  const auto for_each_part = [this](const auto& take) {
    for (const auto* table : {&spec_->towers, &spec_->weights}) {
      for (const model::WeightSpec& weight : *table) std::ranges::for_each(weight.parts, take);
    }
  };
  for_each_part(note);
  for_each_part(note_own);
  std::vector<std::pair<std::string, std::string>> all(own.begin(), own.end());
  all.insert(all.end(), used.begin(), used.end());
  // Nemotron-H's "model.embed_tokens." goes before "model.", which fits it too.
  std::ranges::stable_sort(all, std::greater(), [](const auto& pair) { return pair.first.size(); });
  return all;
}

std::vector<std::string> Source::left_out() const {
  std::vector<std::string> names;
  for (const std::string& tensor : tensors_left_out(*spec_)) {
    const checkpoint::TensorEntry* found = checkpoint::find_tensor(*checkpoint_, *spec_, tensor);
    if (found != nullptr) names.push_back(found->name);
  }
  return names;
}

void Source::check_unchanged() const {
  for (const File& file : files_) {
    const struct stat status = status_of(file.path);
    const bool same = static_cast<uint64_t>(status.st_size) == file.bytes &&
                      nanoseconds(status.st_mtim) == file.modified &&
                      nanoseconds(status.st_ctim) == file.changed && status.st_ino == file.inode;
    const auto digest = [&] {
      return file.map == nullptr ? sha256_hex(read_text_file(file.path)) : header_digest(*file.map);
    };
    if (same && digest() == file.digest) continue;
    fail(ExitCode::checkpoint_unusable,
         "{} was changed while it was read; the shards may be of both states and count as "
         "unfinished; start again into a fresh folder when nothing writes to it",
         file.path.string());
  }
}

std::vector<std::string> Source::unplaced() const {
  std::map<std::string, int> counts;
  for (const auto& [name, tensor] : checkpoint_->tensors()) {
    const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
    const auto ends = [&](const std::string& suffix) { return name.ends_with(suffix); };
    const auto prefix = std::ranges::find_if(spec_->ignored_prefixes, begins);
    const auto suffix = std::ranges::find_if(spec_->ignored_suffixes, ends);
    if (prefix != spec_->ignored_prefixes.end()) {
      ++counts[*prefix + "*"];
    } else if (suffix != spec_->ignored_suffixes.end()) {
      ++counts[name == *suffix ? name : "*" + *suffix];
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : counts)
    names.push_back(count == 1 ? name : fmt::format("{} ({} tensors)", name, count));
  return names;
}

std::vector<std::string> side_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!is_weight_name(name)) names.push_back(std::move(name));
  }
  if (error) fail(ExitCode::checkpoint_unusable, "{}: {}", folder.string(), error.message());
  std::ranges::sort(names);
  return names;
}

bool is_weight_name(const std::string& name) {
  // os.path.splitext: leading dots belong to the stem.
  const size_t stem = name.find_first_not_of('.');
  const size_t dot = name.rfind('.');
  if (stem == std::string::npos || dot == std::string::npos || dot < stem) return false;
  const std::string suffix = name.substr(dot);
  return suffix == ".bin" || suffix == ".pt" || suffix == ".safetensors";
}

}  // namespace plimsoll::shard
