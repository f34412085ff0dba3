// The text of a plan that is made up by hand: each figure in its place, each line where it belongs.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "base/error.h"
#include "plan/configs.h"
#include "plan/report/report.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using Catch::Contains;

namespace {

constexpr int64_t kMib = int64_t{1} << 20;

KvKindCount kind(KvKind which, int64_t layers, int64_t window = 0) {
  KvKindCount count;
  count.spec.kind = which;
  count.spec.block_size = 16;
  count.spec.page = 64 * 1024;
  count.spec.window = window;
  count.layers = layers;
  return count;
}

PlanPart part(const char* name, int64_t bytes, bool inside = true) {
  return {.name = name, .bytes = bytes, .formula = "f", .source = "s", .inside_budget = inside};
}

/// A launch on two cards that fits.
PlanResult made_up() {
  PlanResult plan;
  plan.engine = "vllm", plan.version = "0.24.0", plan.model = "org/m";
  plan.architecture = "MForCausalLM", plan.dtype = "bfloat16";
  plan.gpu = "H100", plan.gpus = 2, plan.fits = true;
  plan.total_bytes = 80 * kGib, plan.budget_bytes = 72 * kGib;
  plan.gpu_memory_utilization = 0.9;
  plan.weights_bytes = 18 * kGib;
  plan.parts = {part("weights", 18 * kGib), part("kv cache", 54 * kGib)};
  plan.has_kv = true;
  plan.kv_kinds = {kind(KvKind::full, 32)};
  plan.group_sizes = {32};
  plan.kv_bytes_per_token = 128 * 1024;
  plan.block_size = 16, plan.num_gpu_blocks = 27648, plan.kv_tokens = 442368;
  plan.kv_cache_bytes = 54 * kGib;
  plan.max_model_len = 8192, plan.estimated_max_model_len = 442368, plan.max_concurrency = 54;
  plan.max_num_seqs = 256, plan.max_num_batched_tokens = 2048, plan.cuda_graphs = 1;
  return plan;
}

std::string text_of(const PlanResult& plan) {
  return to_text(plan, 80);
}

/// The words of the text, wherever its lines break.
std::string words_of(const PlanResult& plan) {
  std::istringstream text(text_of(plan));
  std::string words;
  for (std::string word; text >> word;) words += word + " ";
  return words;
}

}  // namespace

TEST_CASE("the text of a plan that fits, line by line") {
  // The bars have 80 - 30 - 11 - 4 = 35 columns, a quarter and three quarters of which are 9 and
  // 26.
  CHECK(text_of(made_up()) ==
        "org/m\n"
        "  MForCausalLM, bfloat16, vllm 0.24.0\n"
        "  2 x H100, 80.00 GiB each; budget 72.00 GiB (0.9)\n"
        "\n"
        "FITS\n"
        "\n"
        "Memory per GPU (largest rank)\n"
        "  weights                         18.00 GiB #########\n"
        "  kv cache                        54.00 GiB ##########################\n"
        "\n"
        "KV cache\n"
        "  32 layers of full attention: 64.0 KiB for a block of 16 tokens\n"
        "  128.0 KiB of KV cache per token (32 layers)\n"
        "  27648 blocks of 16 tokens, 442368 tokens in all\n"
        "  54.00 requests of 8192 tokens at once; longest that fits 442368\n"
        "\n"
        "Limits: context 8192, 256 sequences, 2048 tokens a step, 1 CUDA graph\n");
}

TEST_CASE("the head says what was not named, and what a newer release is planned as") {
  PlanResult plan = made_up();
  plan.architecture = "", plan.dtype = "", plan.version = "0.99.0", plan.planned_as = "0.31.0";
  plan.budget_bytes = 0;
  plan.model = std::string(100, 'x');
  CHECK(text_of(plan).starts_with(
      std::string(80, 'x') +
      "\n  no architecture named, vllm 0.99.0 (not known yet: planned as 0.31.0)\n"
      "  2 x H100, 80.00 GiB each\n\nFITS\n"));
  plan.fits.reset();
  CHECK_THAT(text_of(plan), Contains("\n\nNO VERDICT\n"));
  plan.gpu = "";
  CHECK_THAT(text_of(plan), Contains("\n\nNo card given (--gpu NAME): sizes without a verdict.\n"));
  plan.fits = false, plan.reason = "Too little.", plan.solved = "Tried all.";
  CHECK_THAT(text_of(plan), Contains("\n\nDOES NOT FIT\n  Too little.\n  Tried all.\n\n"));
}

TEST_CASE("a verdict about this machine's memory speaks of no card") {
  PlanResult plan = made_up();
  plan.gpu = "", plan.engine = "plimsoll";
  plan.host_needed = 3 * kGib, plan.host_left = 4 * kGib;
  const std::string text = text_of(plan);
  CHECK_THAT(text, Contains("\n  on this machine's processor: 3.00 GiB needed of 4.00 GiB "
                            "available\n\nFITS\n"));
  CHECK_THAT(text, Contains("\nMemory (largest rank)\n"));
  CHECK_THAT(text, Contains("2048 tokens a step\n") && !Contains("CUDA graph"));
  plan.gpu = "H100";
  CHECK_THAT(text_of(plan), !Contains("processor") && Contains("1 CUDA graph"));
}

TEST_CASE("bars are shares of the budget, or of all parts, and never empty or too long") {
  PlanResult plan = made_up();
  plan.parts = {part("weights", 1), part("more", 100 * kGib), part("less", -kGib),
                part("graphs", 36 * kGib, false)};
  const auto row = [](const char* name, const char* size, size_t filled) {
    const std::string line =
        fmt::format("\n  {:<30}{:>11} {}", name, size, std::string(filled, '#'));
    return Contains(line.substr(0, line.find_last_not_of(' ') + 1) + (filled == 18 ? " " : "\n"));
  };
  CHECK_THAT(text_of(plan),
             row("weights", "1 B", 1) && row("more", "100.00 GiB", 35) &&
                 row("less", "-1.00 GiB", 0) && row("graphs", "36.00 GiB", 18) &&
                 Contains("#" + std::string(17, ' ') + "*\n  * taken outside the budget by this"));
  plan.budget_bytes = 0;
  plan.parts = {part("weights", 3 * kGib), part("a part's name of more than thirty columns", kGib)};
  CHECK_THAT(text_of(plan), row("weights", "3.00 GiB", 26) && !Contains("* taken") &&
                                row("a part's name of more than thi", "1.00 GiB", 9));
  plan.parts.clear();
  CHECK_THAT(text_of(plan), !Contains("Memory per GPU"));
}

TEST_CASE("every kind of cache has words and its class in vLLM") {
  struct Row {
    KvKind kind;
    const char *words, *name;
    bool slides;
  };
  for (const Row& row : {
           Row{KvKind::full, "full attention", "FullAttentionSpec", false},
           Row{KvKind::sliding, "sliding window", "SlidingWindowSpec", true},
           Row{KvKind::chunked, "chunked attention", "ChunkedLocalAttentionSpec", false},
           Row{KvKind::latent, "latent attention", "MLAAttentionSpec", false},
           Row{KvKind::sliding_latent, "latent, sliding window", "SlidingWindowMLASpec", true},
           Row{KvKind::state, "recurrent state", "MambaSpec", false},
           Row{KvKind::crossed, "cross attention", "CrossAttentionSpec", false},
           Row{KvKind::ring, "tokens not yet pooled", "CircularBufferSpec", false},
       }) {
    INFO(row.words);
    PlanResult plan = made_up();
    plan.kv_kinds = {kind(row.kind, 3, 512), kind(KvKind::full, 4)};
    plan.group_sizes = {3, 4};
    CHECK_THAT(words_of(plan),
               Contains(std::string(" 3 layers of ") + row.words + " (512 tokens): 64.0 KiB") &&
                   Contains("per token beyond every window (7 layers in groups of 3, 4) "));
    CHECK(kind_name(row.kind) == row.name);
    const OrderedJson json = parse_json<OrderedJson>(to_json(plan));
    CHECK(json["kv_kinds"][0] ==
          OrderedJson{{"kind", row.name},
                      {"layers", 3},
                      {"block_size", 16},
                      {"page_bytes", 65536},
                      {"sliding_window", row.slides ? OrderedJson(512) : OrderedJson(nullptr)}});
    CHECK(json.contains("attention_chunk_sizes") == (row.kind == KvKind::chunked));
  }
}

TEST_CASE("the cache stands with its edges, the first boot's, and the length that is launched") {
  PlanResult plan = made_up();
  plan.bounds = PlanResult::CacheBounds();
  plan.bounds->low.kv_cache_bytes = 50 * kGib;
  plan.bounds->middle.kv_cache_bytes = 54 * kGib;
  plan.bounds->high.kv_cache_bytes = 55 * kGib;
  plan.auto_max_model_len = 4096;
  CHECK_THAT(text_of(plan), Contains("\n  54.00 GiB (50.00 GiB to 55.00 GiB)\n") &&
                                Contains("requests of 4096 tokens at once") &&
                                Contains("Limits: context 4096,") && !Contains("First boot"));
  plan.assume = Assume::worst;
  plan.fits = false;
  CHECK_THAT(text_of(plan), Contains("(50.00 GiB to 55.00 GiB), planned at the worst edge\n") &&
                                Contains("requests of 4096 tokens at once") &&
                                Contains("Limits: context 8192,"));
  plan.cold = ColdBoot();
  plan.cold->cache.kv_cache_bytes = plan.kv_cache_bytes;
  CHECK_THAT(text_of(plan), !Contains("First boot"));
  plan.cold->activation_peak_bytes = 3 * kGib;
  plan.cold->kv_cache = {47 * kGib, 48 * kGib, 49 * kGib};
  plan.cold->cache = {48 * kGib, 24576, 393216, 48, 0, true, ""};
  CHECK_THAT(words_of(plan),
             Contains("First boot (empty compile cache): 48.00 GiB (47.00 GiB to 49.00 GiB), 24576 "
                      "blocks, 393216 tokens, 48.00 requests, as torch.compile's trial runs raise "
                      "the peak to 3.00 GiB Limits"));
  plan.cold->cache.fits = false;
  CHECK_THAT(words_of(plan), Contains("peak to 3.00 GiB; it is refused Limits"));
}

TEST_CASE("stages stand beside each other with the first and last layer of each") {
  PlanResult plan = made_up();
  for (const int64_t number : {0, 1, 2}) {
    StageFigures stage;
    stage.stage = number, stage.first_layer = 16 * number, stage.layers = number == 2 ? 0 : 16;
    stage.weights_bytes = (1 + number) * kGib, stage.activation_peak_bytes = 512 * kMib;
    stage.kv_cache_bytes = 20 * kGib, stage.num_gpu_blocks = 1000 + number;
    plan.stages.push_back(stage);
  }
  plan.stage = 1;
  CHECK_THAT(text_of(plan), Contains("Memory per GPU (stage 1, the tightest)\n"));
  CHECK_THAT(
      text_of(plan),
      Contains("\nStages    layers       weights    activation      kv cache      blocks\n"
               "   0        0-15      1.00 GiB     512.0 MiB     20.00 GiB        1000\n"
               "   1       16-31      2.00 GiB     512.0 MiB     20.00 GiB        1001  tightest\n"
               "   2       32-32      3.00 GiB     512.0 MiB     20.00 GiB        1002\n\n"));
  CHECK_THAT(to_html(plan), Contains("<tr><td>1, the tightest</td><td>16</td><td>2.00 GiB</td>"
                                     "<td>512.0 MiB</td><td>20.00 GiB</td><td>1001</td></tr>"));
  CHECK_THAT(to_html(plan), Contains("<h2>Per GPU of stage 1, the tightest</h2>"));
  plan.has_kv = false;
  CHECK_THAT(text_of(plan), Contains("512.0 MiB             -           -\n"));
}

TEST_CASE("what is loaded, taken for granted, held by the host and advised follows the cache") {
  PlanResult plan = made_up();
  plan.loading_peak_bytes = plan.weights_bytes;
  CHECK_THAT(text_of(plan), !Contains("While loading"));
  plan.loading_peak_bytes += 1;
  plan.max_num_seqs = 1, plan.max_num_batched_tokens = 1, plan.cuda_graphs = 2;
  plan.machine = {{"links", "NVLink", "the card has it", "--interconnect"}};
  plan.host = {part("offloaded", kGib), part("tables", kMib)};
  plan.host[1].less = 1;
  plan.host_processes = 4;
  plan.advice = {
      {.change = "a smaller cache", .flag = "-x 1", .saves = kGib, .cost = "none", .fits = true},
      {.change = "fewer graphs", .flag = "", .cost = "speed", .fits = false},
      {.change = "swap", .flag = "", .cost = "it is ignored", .fits = true, .helps = false}};
  plan.notes = {"one", "two"};
  CHECK_THAT(text_of(plan),
             Catch::EndsWith(
                 "While loading: 18.00 GiB on the card at most\n"
                 "Limits: context 8192, 1 sequence, 1 token a step, 2 CUDA graphs\n"
                 "\nTaken for granted of the machine\n"
                 "  links: NVLink (the card has it; --interconnect)\n"
                 "\nMemory of the host\n"
                 "  1.00 GiB (offloaded 1.00 GiB, tables up to 1.0 MiB), beside the own memory of\n"
                 "  4 processes\n"
                 "\nWhat would help\n"
                 "  [fits] a smaller cache (saves 1.00 GiB): none\n"
                 "      -x 1\n"
                 "  fewer graphs: speed\n"
                 "\nWhat would not\n"
                 "  swap: it is ignored\n"
                 "\nNote: one\n"
                 "\nNote: two\n"));
  plan.advice = {plan.advice.back()};
  CHECK_THAT(text_of(plan), !Contains("What would help") && Contains("\n\nWhat would not\n"));
  plan.refused = true;
  CHECK_THAT(text_of(plan), Contains("Limits: context 8192,"));
  plan.max_model_len = 0;
  CHECK_THAT(text_of(plan), !Contains("Limits") && !Contains("While loading"));
}

TEST_CASE("a gain is the longest context's, else the requests', and what is saved or taken") {
  Suggestion one;
  CHECK(gain_text(one).empty());
  one.longest_before = one.longest = 4096;
  one.length = 2048, one.requests_before = 1.5, one.requests = 3;
  CHECK(gain_text(one) == "requests of 2048 tokens at once 1.50 -> 3.00");
  one.saves = -2 * kGib;
  CHECK(gain_text(one) == "requests of 2048 tokens at once 1.50 -> 3.00; takes 2.00 GiB");
  one.longest = 8192, one.saves = kMib;
  CHECK(gain_text(one) == "longest context 4096 -> 8192; saves 1.0 MiB");
  one.longest = 4096, one.requests = 1.5;
  CHECK(gain_text(one) == "saves 1.0 MiB");
}

TEST_CASE("an explained part is the one of that name, else all whose names have the word") {
  PlanResult plan = made_up();
  plan.parts = {part("weights", kGib), part("weights: head", 2 * kGib), part("kv cache", 3)};
  plan.parts[1].less = kGib, plan.parts[1].more = 2 * kGib;
  const std::string head =
      "weights: head: 2.00 GiB (2147483648 bytes)\n  = f\n  from s; 1.00 GiB to 4.00 GiB\n";
  const std::string whole = "weights: 1.00 GiB (1073741824 bytes)\n  = f\n  from s\n";
  CHECK(explain_part(plan, "weights") == whole);
  CHECK(explain_part(plan, "weights:") == head);
  CHECK(explain_part(plan, "weight") == whole + head);
  plan.parts[1].less = 0;
  CHECK_THAT(explain_part(plan, "head"), Contains("; 2.00 GiB to 4.00 GiB\n"));
  CHECK_THROWS_WITH(explain_part(plan, "heads"),
                    "--explain heads: no such part; there is weights, weights: head, kv cache");
}

TEST_CASE("another engine's cache stands in its words, and what it will log") {
  PlanResult plan = made_up();
  plan.engine = "sglang";
  engines::Answer answer;
  answer.says = {"#tokens: 442368", "ready"};
  plan.other_engine = std::make_shared<engines::Answer>(answer);
  CHECK_THAT(text_of(plan),
             Contains("KV cache\n  442368 tokens of 128.0 KiB each, in blocks of 16\n"
                      "  54.00 requests of 8192 tokens at once; longest that fits 442368\n\n"
                      "What sglang will log\n  #tokens: 442368\n  ready\n\n"));
  CHECK(to_log(plan) == "#tokens: 442368\nready\n");
  answer.log = {"first", "#tokens: 442368"};
  plan.other_engine = std::make_shared<engines::Answer>(answer);
  plan.reason = "No room.";
  CHECK(to_log(plan) == "first\n#tokens: 442368\nNo room.\n");
}
