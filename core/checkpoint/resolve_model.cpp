#include "checkpoint/resolve_model.h"

#include "checkpoint/fused_experts.h"
#include "checkpoint/gguf/bind.h"
#include "checkpoint/packed_weights.h"
#include "checkpoint/tied_head.h"
#include "quantization/online.h"

namespace plimsoll::checkpoint {

void resolve_stored(Checkpoint& checkpoint, model::ModelSpec& spec) {
  if (checkpoint.gguf() != nullptr) {
    if (!spec.dtype_stated) spec.dtype = gguf::stored_dtype(checkpoint);
    return gguf::bind_tensors(checkpoint, spec);
  }
  spec.dtype = model_dtype(checkpoint, spec);
  resolve_fused_experts(checkpoint, spec);
  resolve_tied_head(checkpoint, spec);
}

void resolve_kept(const Json& config, const Checkpoint* checkpoint, const Keeping& keeping,
                  model::ModelSpec& spec) {
  const quantization::FindStored find =
      checkpoint == nullptr ? nullptr : find_stored(*checkpoint, spec);
  if (checkpoint != nullptr && checkpoint->gguf() != nullptr) {
    gguf::keep_blocks(*checkpoint, keeping.activations, spec);
    return quantization::assign_online(keeping.online, keeping.activations, spec);
  }
  quantization::assign_packings(config, find, keeping.activations, spec);
  quantization::assign_online(keeping.online, keeping.activations, spec);
}

}  // namespace plimsoll::checkpoint
