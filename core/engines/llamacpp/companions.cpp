// Sources: tools/server/server-context.cpp (load_model), tools/mtmd/clip.cpp and
// src/llama-adapter.cpp of llama.cpp.
#include "engines/llamacpp/companions.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/rounding.h"
#include "base/size_text.h"
#include "engines/answer.h"

namespace plimsoll::engines::llamacpp {
namespace {

using checkpoint::gguf::Model;
using checkpoint::gguf::Tensor;

constexpr const char* kHostName = "CPU";

/// True for a file on this machine; else a note says that it is not counted.
bool is_here(const std::string& file, const char* what, Launch& launch) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return true;
  launch.notes.push_back(
      fmt::format("{} {}: not on this machine, its memory is not counted", what, file));
  return false;
}

std::string name_of(const Launch& launch, int device) {
  return device == kHost ? kHostName : launch.cards[static_cast<size_t>(device)].name;
}

Draft opened(const Launch& launch) {
  Draft draft{&launch, Model::open(launch.file), {}};
  draft.shape = shape_of(draft.model);
  apply_overrides(launch, draft.shape);
  check_launch(launch, draft.shape);
  return draft;
}

/// The draft's context holds as many tokens as the target's (common/speculative.cpp).
Companion measured(const Draft& opened, int64_t context, const std::vector<float>& shares) {
  const Launch& launch = *opened.launch;
  Placement placement = asked_placement(opened.shape, launch);
  placement.context = context;
  placement.shares = shares;
  const Memory memory = measure(opened.shape, launch, placement);
  Companion draft{"draft model", launch.file, {}};
  for (size_t i = 0; i < memory.cards.size(); ++i)
    draft.used[launch.cards[i].name] = memory.cards[i];
  Usage& host = draft.used[kHostName];
  for (const Usage& usage : {memory.pinned, memory.plain, memory.repacked}) {
    host.model += usage.model;
    host.context += usage.context;
    host.compute += usage.compute;
  }
  return draft;
}

/// What a key of a file says; empty: it is not there, or no text.
std::string said(const Model& model, const char* key) {
  const checkpoint::gguf::Value* const value = model.find(key);
  const auto text = value == nullptr ? std::nullopt : value->text();
  return std::string(text.value_or(""));
}

/// Refuses a file that is not what its flag names.
void check_key(const Model& model, const char* key, std::string_view wanted) {
  const std::string found = said(model, key);
  if (found == wanted) return;
  throw Refusal{"model", fmt::format("{}: expect {} to be '{}', but got: {}", model.path().string(),
                                     key, wanted, checkpoint::gguf::shown_name(found))};
}

Companion projector_of(const Launch& launch) {
  const Model model = Model::open(launch.projector);
  check_key(model, "general.architecture", "clip");
  const int device = launch.projector_on_card && !launch.cards.empty() ? 0 : kHost;
  Companion projector{"projector", launch.projector, {}};
  Usage& usage = projector.used[name_of(launch, device)];
  for (const Tensor& tensor : model.tensors()) usage.model += allocated(tensor, device);
  return projector;
}

/// The matrix that an adapter's tensor changes: "blk.0.attn_q.weight" of
/// "blk.0.attn_q.weight.lora_a"; empty: it is no adapter's.
std::string_view base_of(std::string_view name) {
  const bool pairs = name.ends_with(".lora_a") || name.ends_with(".lora_b");
  return pairs ? name.substr(0, name.rfind('.')) : "";
}

}  // namespace

Companions::Companions(Launch& launch) {
  for (const Launch& draft : launch.draft)
    if (is_here(draft.file, "--model-draft", launch)) drafts_.push_back(opened(draft));
  if (launch.projector.empty() || !is_here(launch.projector, "--mmproj", launch)) return;
  all_.push_back(projector_of(launch));
  launch.notes.emplace_back("--mmproj: what a step of the projector needs is not counted");
}

void Companions::reserve(Launch& launch) const {
  for (const Companion& companion : all_) {
    for (size_t i = 0; i < launch.cards.size(); ++i) {
      const auto at = companion.used.find(launch.cards[i].name);
      if (at != companion.used.end()) launch.margins[i] += at->second.total();
    }
  }
}

std::vector<Usage> Companions::draft_on(const Launch& target, const Placement& placement) const {
  std::vector<Usage> used(target.cards.size());
  for (const Draft& draft : drafts_) {
    const Companion companion = measured(draft, placement.context, draft.launch->shares);
    for (size_t i = 0; i < used.size(); ++i) {
      const auto at = companion.used.find(target.cards[i].name);
      if (at != companion.used.end()) used[i] = at->second;
    }
  }
  return used;
}

void Companions::add_draft(const Placement& placement) {
  for (const Draft& draft : drafts_)
    all_.insert(all_.begin(), measured(draft, placement.context, placement.shares));
}

void Companions::add_adapters(const Shape& shape, Launch& launch, const Placement& placement) {
  const Devices devices = devices_of(shape, launch, placement);
  std::unordered_map<std::string_view, size_t> places;
  if (!launch.adapters.empty()) {
    for (size_t i = 0; i < shape.weights.size(); ++i)
      places.emplace(shape.weights[i].tensor->name, i);
  }
  for (const std::string& file : launch.adapters) {
    if (!is_here(file, "--lora", launch)) continue;
    const Model model = Model::open(file);
    check_key(model, "general.type", "adapter");
    check_key(model, "general.architecture", shape.architecture);
    Companion adapter{"LoRA adapter", file, {}};
    for (const Tensor& tensor : model.tensors()) {
      if (tensor.name.ends_with("_norm.weight")) continue;  // llama.cpp leaves them out
      const auto base = places.find(base_of(tensor.name));
      if (base == places.end()) {
        throw Refusal{"model", fmt::format("{}: LoRA tensor '{}' does not exist in base model "
                                           "(hint: maybe wrong base model?)",
                                           file, checkpoint::gguf::shown_name(tensor.name))};
      }
      const int device = devices.weights[base->second];
      adapter.used[name_of(launch, device)].model += allocated(tensor, device);
    }
    all_.push_back(std::move(adapter));
  }
  std::string names;
  for (const std::string& file : launch.control_vectors)
    if (is_here(file, "--control-vector", launch)) names += (names.empty() ? "" : ", ") + file;
  if (names.empty()) return;
  // All files are added up to one vector for each layer but the first.
  Companion vectors{"control vectors", names, {}};
  for (int64_t l = 1; l < shape.count(); ++l) {
    const int device = devices.layers[static_cast<size_t>(l)];
    vectors.used[name_of(launch, device)].model += round_up(shape.embedding * kFloat32, 128);
  }
  all_.push_back(std::move(vectors));
}

void Companions::add_to(std::vector<Buffer>& buffers, std::vector<Card>& cards) const {
  for (const Companion& companion : all_) {
    for (const auto& [name, usage] : companion.used) {
      if (usage.total() == 0) continue;
      auto buffer = std::ranges::find(buffers, name, &Buffer::name);
      if (buffer == buffers.end()) {
        const auto card = std::ranges::find(cards, name, &Card::name);
        const auto place = static_cast<int>(card - cards.begin());
        buffers.push_back({name, card == cards.end() ? kHost : place, 0, 0, 0});
        buffer = buffers.end() - 1;
      }
      buffer->model += usage.model;
      buffer->context += usage.context;
      buffer->compute += usage.compute;
    }
  }
}

OrderedJson Companions::json() const {
  OrderedJson rows = OrderedJson::array();
  for (const Companion& companion : all_) {
    OrderedJson row = {{"what", companion.what}, {"file", companion.file}};
    for (const auto& [name, usage] : companion.used)
      row["buffers"][name] = {usage.model, usage.context, usage.compute};
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> Companions::notes() const {
  std::vector<std::string> notes;
  for (const Companion& companion : all_) {
    std::string text;
    for (const auto& [name, usage] : companion.used) {
      if (usage.total() == 0) continue;
      text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", size_text(usage.total()), name);
    }
    notes.push_back(
        fmt::format("{} {}: {}, counted with the model's", companion.what, companion.file, text));
  }
  return notes;
}

}  // namespace plimsoll::engines::llamacpp
