// Checks of a backend against another one, with tiny models that pass through the kernels.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/dtype.h"
#include "cli/doctor/findings.h"
#include "cli/doctor/tiny_models.h"

namespace plimsoll::cli {

/// Makes a backend for one question, because a backend serves one launch.
using MakeBackend = std::function<std::unique_ptr<backend::Backend>()>;

/// Tokens of a prompt that is long enough for the kernels of long prompts.
inline constexpr int kLongPrompt = 400;

/// A computation to compare on two backends.
struct Question {
  const TinyModel* model = nullptr;
  DType dtype = DType::f32;
  std::optional<DType> kv_dtype{};  // of the cache; absent: `dtype`
  int prompt = 72;                  // tokens
  std::string covers{};             // in place of the model's `covers`
};

/// All tiny models in float32, some in bfloat16, and one over a cache of float8.
std::vector<Question> usual_questions();
/// Questions for the kernels that a launch takes only where it finds them faster on its card: for
/// decode steps, and for long prefills on Hopper.
std::vector<Question> questions_of_hopper();

/// Runs the model on both backends and compares. A failure is stored in the check; nothing is
/// thrown.
Check ask_both(const Question& question, const MakeBackend& make_subject,
               const MakeBackend& make_twin);

/// Matrices [size, size], `weights` of them, which caches cannot hold, and the rows of a product.
struct RoofSizes {
  int64_t size;
  int64_t rows;
  int weights;
  int rounds;
};
inline constexpr RoofSizes kHostRoofs{.size = 4096, .rows = 64, .weights = 4, .rounds = 4};
inline constexpr RoofSizes kCardRoofs{.size = 8192, .rows = 4096, .weights = 4, .rounds = 16};

/// Measures reading of large matrices and multiplying by them, on a backend that has served no
/// launch. On a device algorithms are chosen as a launch chooses them. Throws Error.
MeasuredRoofs measure_roofs(backend::Backend& backend, const RoofSizes& sizes);

}  // namespace plimsoll::cli
