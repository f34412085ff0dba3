#include "engines/transformers/transformers.h"

#include "engines/transformers/launch.h"

namespace plimsoll::engines::transformers {
namespace {

using enum FlagKind;

constexpr std::string_view kServe = "transformers serve";

constexpr Flag kServeFlags[] = {
    {"--continuous-batching", bare},
    {"--attn-implementation", text},
    {"--dtype", text, "auto,float16,bfloat16,float32"},
    {"--tensor-parallel-size", integer},
    {"--page-size", integer},
    {"--num-blocks", integer},
    {"--max-batch-tokens", integer},
    {"--max-memory-percent", number},
    {"--max-requests-per-batch", integer},
    {"--cache-implementation", text, "paged,dynamic,static"},
    {"--batch-size", integer},
    {"--max-length", integer},
    uncounted("--quantization", text, "weights are counted as the checkpoint stores them"),
    unplanned("--help,-h", bare, kExits),
    {"--compile", bare, "", false},
    {"--reasoning", text, "", false},
    {"--device", text, "", false},
    {"--host", text, "", false},
    {"--port", integer, "", false},
    {"--log-level", text, "", false},
    {"--trust-remote-code", bare, "", false},
    {"--model-timeout", integer, "", false},
    {"--default-seed", integer, "", false},
    {"--enable-cors", bare, "", false},
    {"--force-model", text, "", false},
};

constexpr FieldFlag kServeMeanings[] = {
    {"--attn-implementation", "attn"},
    {"--dtype", "dtype"},
    {"--tensor-parallel-size", "tp"},
    {"--page-size", "page_size"},
    {"--num-blocks", "num_blocks"},
    {"--max-batch-tokens", "max_batch_tokens"},
    {"--max-memory-percent", "max_memory_percent"},
    {"--max-requests-per-batch", "max_requests_per_batch"},
    {"--cache-implementation", "cache_implementation"},
    {"--batch-size", "batch_size"},
    {"--max-length", "max_length"},
};

void fill_terms(const Launch& launch, Figures& figures) {
  figures.dtype = launch.dtype;
  figures.kv_dtype = launch.dtype;
  figures.ranks = launch.tp;
  figures.context = launch.length;
  figures.running = launch.cache == "paged" ? launch.requests : launch.sequences;
  figures.block_tokens = launch.cache == "paged" ? launch.page : 1;
  figures.share = launch.share;
  figures.share_of = "max_memory_percent, of what is free";
}

void check_heads(const Launch& launch, const ModelConfig& config) {
  if (config.kv_heads() % launch.tp == 0) return;
  throw Refusal{"arguments", "ValueError: Number of key value heads " +
                                 std::to_string(config.kv_heads()) +
                                 " must be divisible by tensor parallel size " +
                                 std::to_string(launch.tp) + "."};
}

}  // namespace

std::span<const Flag> flags() {
  return kServeFlags;
}

void answer_to(const Question& question, Version, Answer& answer) {
  const CommandLine line(kServeFlags, kServe, question.words);
  const ModelConfig config(*question.config, question.config_path);
  const Fields fields(with_flags(question.fields, line, kServeFlags, kServeMeanings));
  const Launch launch = resolve(config, fields);
  answer.resolved = resolved_json(launch);
  answer.sizing = OrderedJson::object();
  check_heads(launch, config);
  fill_terms(launch, answer.figures);
  line.add_notes(answer.notes);
  if (config.text().has("kv_lora_rank")) {
    answer.notes.emplace_back(
        "latent attention: transformers sizes its paged cache by the config's head_dim, which is "
        "not what a layer stores; the figures are its own and not to be trusted");
  }
  if (!question.free) {
    answer.sizing = nullptr;
    return;
  }
  if (launch.cache != "paged") {
    size_generate(launch, question.free->after, answer);
    return;
  }
  size(launch, question.total_gib(), question.free->after, answer);
}

}  // namespace plimsoll::engines::transformers
