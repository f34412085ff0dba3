// Files that a launch loads beside its model: a draft model, a projector, adapters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/answer.h"
#include "engines/llamacpp/memory.h"

namespace plimsoll::engines::llamacpp {

/// What one of these files takes.
struct Companion {
  std::string what, file;             // "draft model"
  std::map<std::string, Usage> used;  // by cards' names; "CPU": the host
};

/// A draft model, whose context follows the target's.
struct Draft {
  const Launch* launch = nullptr;
  checkpoint::gguf::Model model;
  Shape shape;
};

class Companions {
 public:
  /// Opens the draft model and the projector of a launch. A file that is not here leaves a note.
  /// Throws Refusal, and Error(checkpoint_unusable).
  explicit Companions(Launch& launch);

  /// Raises the margins of --fit by the projector, as llama-server does.
  void reserve(Launch& launch) const;
  /// Bytes of the draft model on the target's cards, for each context that --fit tries.
  [[nodiscard]] std::vector<Usage> draft_on(const Launch& target, const Placement& placement) const;
  /// Counts the draft model at the context that the target has come to.
  void add_draft(const Placement& placement);
  /// Adapters, which lie beside the matrices that they change.
  void add_adapters(const Shape& shape, Launch& launch, const Placement& placement);

  /// Adds all to a launch's own buffers, card by card.
  void add_to(std::vector<Buffer>& buffers, std::vector<Card>& cards) const;
  [[nodiscard]] OrderedJson json() const;
  /// A line on each file.
  [[nodiscard]] std::vector<std::string> notes() const;
  [[nodiscard]] bool empty() const { return all_.empty(); }

 private:
  std::vector<Draft> drafts_;  // one, or none
  std::vector<Companion> all_;
};

}  // namespace plimsoll::engines::llamacpp
