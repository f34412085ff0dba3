// Where llama.cpp puts weights and caches, byte by byte, and how it logs them: models of two
// layers.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/amount.h"
#include "batch/scratch.h"
#include "engines/engine.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

using Flags = std::vector<std::string>;

/// Two layers: 4 heads and 2 KV heads of 64, 256 wide, 1024 tokens. Bytes, in float32: embedding
/// 1048576, head as many and a norm of 1024; a layer's matrix 262144 and bias 40.
class Small {
 public:
  explicit Small(const std::vector<Json>& more = {}) {
    Json recipe = {{"data", false},
                   {"kv",
                    {{"general.architecture", "string", "llama"},
                     {"llama.block_count", "u32", 2},
                     {"llama.context_length", "u32", 4096},
                     {"llama.embedding_length", "u32", 256},
                     {"llama.feed_forward_length", "u32", 512},
                     {"llama.attention.head_count", "u32", 4},
                     {"llama.attention.head_count_kv", "u32", 2}}},
                   {"tensors",
                    {{{"name", "token_embd.weight"}, {"ne", {256, 1024}}, {"type", "F32"}},
                     {{"name", "output.weight"}, {"ne", {256, 1024}}, {"type", "F32"}},
                     {{"name", "output_norm.weight"}, {"ne", {256}}, {"type", "F32"}}}}};
    for (const Json& tensor : more) recipe["tensors"].push_back(tensor);
    for (const char* layer : {"blk.0.", "blk.1."}) {
      recipe["tensors"].push_back(
          {{"name", layer + std::string("attn_q.weight")}, {"ne", {256, 256}}, {"type", "F32"}});
      recipe["tensors"].push_back(
          {{"name", layer + std::string("attn_q.bias")}, {"ne", {10}}, {"type", "F32"}});
    }
    const std::string file = scratch_.path("small.gguf");
    testing::write_gguf_header(recipe, file);
    models_.push_back(checkpoint::gguf::Model::open(file));
  }

  Answer ask(Flags flags, int cards = 1) const {
    flags.insert(flags.end(), {"-c", "1024", "-fit", "off", "-np", "1"});
    Question question;
    question.gguf = &models_.front();
    question.words = std::move(flags);
    for (int i = 0; i < cards; ++i)
      question.cards.push_back({fmt::format("CUDA{}", i), 24000 * kMiB, (20000 - 1000 * i) * kMiB});
    return find_engine("llamacpp")->ask(question);
  }

  /// Placed by --fit on cards with so many bytes free.
  Answer fit(Flags flags, const std::vector<int64_t>& free) const {
    Question question;
    question.gguf = &models_.front();
    question.words = std::move(flags);
    for (size_t i = 0; i < free.size(); ++i)
      question.cards.push_back({fmt::format("CUDA{}", i), 24000 * kMiB, free[i]});
    return find_engine("llamacpp")->ask(question);
  }

 private:
  test::Scratch scratch_;
  std::vector<checkpoint::gguf::Model> models_;
};

/// {weights, caches} of a buffer; {0, 0}: there is none.
Json held_in(const Answer& answer, const std::string& name) {
  for (const Buffer& buffer : answer.buffers)
    if (buffer.name == name) return {buffer.model, buffer.context};
  return {0, 0};
}

Json tensor_of(const char* name, const std::vector<int64_t>& ne, const char* type) {
  return {{"name", name}, {"ne", ne}, {"type", type}};
}

constexpr int64_t kEmbedding = int64_t{256} * 1024 * 4, kOutput = kEmbedding + 1024;
constexpr int64_t kMatrix = 256 * 256 * 4;
constexpr int64_t kOnCard = kMatrix + 128, kOnHost = kMatrix + 64;  // with the bias, aligned
constexpr int64_t kCache = 2 * 128 * 2 * 1024;  // keys and values of a layer: 1024 cells of 128

}  // namespace

TEST_CASE("layers of llama.cpp lie on cards from the last to the first") {
  const Small small;
  struct Row {
    const char* layers;
    Json host, card;
  };
  const Row rows[] = {
      {"99", {kEmbedding, 0}, {kOutput + 2 * kOnCard, 2 * kCache}},
      {"3", {kEmbedding, 0}, {kOutput + 2 * kOnCard, 2 * kCache}},
      {"2", {kEmbedding + kOnHost, 0}, {kOutput + kOnCard, kCache}},
      {"1", {kEmbedding + 2 * kOnHost, 0}, {kOutput, 0}},
      {"0", {kEmbedding + kOutput + 2 * kOnHost, 0}, {0, 0}},
  };
  for (const Row& row : rows) {
    INFO(row.layers);
    const Answer answer = small.ask({"-ngl", row.layers});
    CHECK(held_in(answer, "CUDA_Host") == row.host);
    CHECK(held_in(answer, "CUDA0") == row.card);
    CHECK(answer.figures.kv_bytes == 2 * kCache);
    CHECK(answer.figures.card_layers == std::min<int64_t>(3, std::stoll(row.layers)));
  }
  CHECK(held_in(small.ask({"-ngl", "2"}), "CPU") == Json{0, kCache});
  CHECK(held_in(small.ask({"-nkvo"}), "CPU") == Json{0, 2 * kCache});
  CHECK(held_in(small.ask({"-ngl", "2", "--no-host"}), "CPU") ==
        Json{kEmbedding + kOnHost, kCache});
  const Answer host = small.ask({}, 0);
  CHECK(held_in(host, "CPU") == Json{kEmbedding + kOutput + 2 * kOnHost, 2 * kCache});
  CHECK(host.figures.ranks == 1);
}

TEST_CASE("cards of llama.cpp share layers as they are told, or by what is free") {
  const Small small;
  const auto weights = [&](Flags flags, const char* card) {
    return held_in(small.ask(std::move(flags), 2), card)[0].get<int64_t>();
  };
  // Of three layers, the head among them, two begin before 20000 / 39000.
  CHECK(weights({}, "CUDA0") == 2 * kOnCard);
  CHECK(weights({}, "CUDA1") == kOutput);
  CHECK(weights({"-ts", "1,2"}, "CUDA0") == kOnCard);
  CHECK(weights({"-ts", "1,2"}, "CUDA1") == kOnCard + kOutput);
  CHECK(weights({"-ts", "0,1"}, "CUDA0") == 0);
  CHECK(weights({"-ts", "1"}, "CUDA1") == 0);
  CHECK(weights({"-ts", "0,0"}, "CUDA0") == 2 * kOnCard);  // no share at all: by what is free
  CHECK(weights({"-sm", "none", "-mg", "1"}, "CUDA1") == kOutput + 2 * kOnCard);
  CHECK(weights({"-dev", "CUDA1"}, "CUDA1") == kOutput + 2 * kOnCard);
  CHECK(weights({"-ot", "blk.1.attn_q=CUDA1"}, "CUDA0") == kOnCard);
  CHECK(weights({"-ot", "blk.1.attn_q=CUDA1"}, "CUDA1") == kOutput + kOnCard);
}

TEST_CASE("rows of packed types are padded on cards, and repacked on the host") {
  // A row of 256 values in q4_0 is 144 bytes; a card reads 512 values of the last row.
  const Small packed(std::vector{tensor_of("blk.0.ffn_up.weight", {256, 16}, "Q4_0")});
  CHECK(held_in(packed.ask({}), "CUDA0")[0] == kOutput + 2 * kOnCard + 2560);  // 2448 aligned
  CHECK(held_in(packed.ask({}, 0), "CPU_REPACK")[0] == 16 * 144);
  CHECK(held_in(packed.ask({"--no-repack"}, 0), "CPU_REPACK")[0] == 0);
  CHECK(held_in(packed.ask({"-ngl", "0"}), "CPU_REPACK")[0] == 0);  // it is CUDA's pinned memory
  const Small whole(std::vector{tensor_of("blk.0.ffn_up.weight", {512, 16}, "Q4_0")});
  CHECK(held_in(whole.ask({}), "CUDA0")[0] == kOutput + 2 * kOnCard + 16 * 288);
  for (const auto& [rows, type] : {std::pair{12, "Q4_0"}, {16, "Q8_0"}, {16, "Q6_K"}}) {
    INFO(rows << type);
    const Small other(std::vector{tensor_of("blk.0.ffn_up.weight", {256, rows}, type)});
    CHECK(held_in(other.ask({}, 0), "CPU_REPACK")[0] == 0);
  }
  for (const char* type : {"Q4_K", "IQ4_NL"}) {
    INFO(type);
    const Small other(std::vector{tensor_of("blk.0.ffn_up.weight", {256, 16}, type)});
    CHECK(held_in(other.ask({}, 0), "CPU_REPACK")[0] == 16 * 144);
  }
}

TEST_CASE("tables of a rope lie on every device with layers") {
  const Small rope(std::vector{tensor_of("rope_freqs.weight", {32}, "F32")});
  const auto grows = [&](const Flags& flags, const char* device, int64_t bytes) {
    const Small plain;
    CHECK(held_in(rope.ask(flags, 2), device)[0].get<int64_t>() -
              held_in(plain.ask(flags, 2), device)[0].get<int64_t>() ==
          bytes);
  };
  grows({"-ts", "1,2"}, "CUDA0", 128);
  grows({"-ts", "1,2"}, "CUDA1", 128);
  grows({"-ts", "1,2"}, "CUDA_Host", 0);
  grows({"-ts", "2,1"}, "CUDA1", 0);  // the head alone
  grows({"-ts", "1,0", "-ngl", "2"}, "CUDA_Host", 128);
}

TEST_CASE("llama.cpp's caches have the bytes of their types") {
  const Small small;
  const auto caches = [&](Flags flags) {
    return held_in(small.ask(std::move(flags)), "CUDA0")[1].get<int64_t>();
  };
  CHECK(caches({}) == 2 * kCache);
  CHECK(caches({"-ctk", "f32"}) == 3 * kCache);
  // 1024 rows of 4 blocks of 34 bytes; 12 blocks behind the last row, aligned to 128.
  CHECK(caches({"-ctk", "q8_0", "-ctv", "q8_0"}) == 4 * (1024 * 136 + 512));
}

TEST_CASE("llama.cpp's log names every buffer") {
  const Small small;
  const Answer answer = small.ask({"-ngl", "2"});
  const auto has = [&](const Answer& found, const std::string& line) {
    for (const std::string& said : found.says)
      if (said == line) return true;
    return false;
  };
  CHECK(has(answer, "load_tensors:   CPU_Mapped model buffer size =     1.25 MiB"));
  CHECK(has(answer, "load_tensors:        CUDA0 model buffer size =     1.25 MiB"));
  CHECK(has(answer, "llama_context:  CUDA_Host  output buffer size =     0.00 MiB"));
  CHECK(has(answer, "llama_kv_cache:        CPU KV buffer size =     0.50 MiB"));
  CHECK(has(answer, "llama_kv_cache:      CUDA0 KV buffer size =     0.50 MiB"));
  CHECK(has(answer,
            "llama_kv_cache: size =    1.00 MiB (  1024 cells,   2 layers,  1/1 seqs), K (f16):    "
            "0.50 MiB, V (f16):    0.50 MiB"));
  const Answer read = small.ask({"-ngl", "2", "--no-mmap"});
  CHECK(has(read, "load_tensors:    CUDA_Host model buffer size =     1.25 MiB"));
  CHECK(has(small.ask({}, 0), "llama_context:        CPU  output buffer size =     0.00 MiB"));
  const Answer keys = small.ask({"-ctk", "f32"});
  CHECK(has(keys,
            "llama_kv_cache: size =    1.50 MiB (  1024 cells,   2 layers,  1/1 seqs), K (f32):    "
            "1.00 MiB, V (f16):    0.50 MiB"));
  // Of 24000 MiB 4000 are taken already; the last line ends in them.
  const std::string& last = answer.says.back();
  CHECK(last.starts_with("common_memory_breakdown_print: |   - CUDA0 | 24000 = 199"));
  CHECK(last.ends_with(" +        4000 |"));
}

TEST_CASE("llama.cpp changes nothing that fits, to the byte") {
  const Small small;
  const Flags flags = {"-c", "2048"};
  const auto used = [](const Answer& answer) {
    int64_t bytes = 0;
    for (const Buffer& buffer : answer.buffers)
      if (buffer.card >= 0) bytes += buffer.total();
    return bytes;
  };
  const int64_t all = used(small.fit(flags, {20000 * kMiB}));
  const int64_t needed = all + 1024 * kMiB;
  const Answer fits = small.fit(flags, {needed}), short_of = small.fit(flags, {needed - 1});
  REQUIRE(fits.says.size() > 2);
  CHECK(fits.says[0] ==
        fmt::format("common_params_fit_impl: projected to use {} MiB of device memory vs. {} MiB "
                    "of free device memory",
                    all / kMiB, needed / kMiB));
  CHECK(fits.says[1] ==
        "common_params_fit_impl: will leave 1024 >= 1024 MiB of free device memory, no changes "
        "needed");
  CHECK(fits.sizing["fit"]["n_gpu_layers"] == -1);
  CHECK(!short_of.says[1].ends_with("no changes needed"));
  CHECK(short_of.sizing["fit"]["n_gpu_layers"] != -1);
  Flags margin = flags;
  margin.insert(margin.end(), {"-fitt", "100"});
  CHECK(small.fit(margin, {all + 100 * kMiB}).says[1] ==
        "common_params_fit_impl: will leave 100 >= 100 MiB of free device memory, no changes "
        "needed");
  CHECK(small.fit(flags, {20000 * kMiB, 20000 * kMiB}).says[1] ==
        "common_params_fit_impl: targets for free memory can be met on all devices, no changes "
        "needed");
}

TEST_CASE("llama.cpp says why it leaves a placing as it is") {
  const Small small;
  struct Row {
    Flags flags;
    size_t cards;
    const char* why;  // empty: it places
  };
  const Row rows[] = {
      {{}, 1, ""},
      {{"-ngl", "0"}, 1, "n_gpu_layers already set by user to 0, abort"},
      {{"-ngl", "99"}, 2, "n_gpu_layers already set by user to 99, abort"},
      {{"-ts", "1,1"}, 2, "model_params::tensor_split already set by user, abort"},
      {{"-ts", "1"}, 1, ""},
      {{"-sm", "tensor"},
       2,
       "changing weight allocation for LLAMA_SPLIT_MODE_TENSOR not implemented, abort"},
      {{"-ot", "attn_q=CPU"}, 1, "model_params::tensor_buft_overrides already set by user, abort"},
  };
  for (const Row& row : rows) {
    INFO(Json(row.flags).dump() << row.cards);
    Flags flags = row.flags;
    flags.insert(flags.end(), {"-c", "2048"});
    // No card has its 1024 MiB free.
    const Answer answer = small.fit(flags, std::vector<int64_t>(row.cards, 1000 * kMiB));
    const bool places = row.why[0] == 0;
    CHECK(answer.sizing["fit"]["status"] == (places ? "success" : "failure"));
    std::string last;
    for (const std::string& said : answer.says)
      if (said.starts_with("common_fit_params: ")) last = said;
    CHECK(last == (places ? ""
                          : "common_fit_params: failed to fit params to free device memory: " +
                                std::string(row.why)));
  }
}
