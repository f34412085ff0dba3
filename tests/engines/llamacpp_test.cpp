// llama.cpp: launches that its own code has measured, and what is asked of it beside them.
// tests/against/llamacpp runs whole files of such rows.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "base/amount.h"
#include "base/error.h"
#include "batch/scratch.h"
#include "engines/engine.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

const std::string kLlamaRows = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/";

/// Models of recipes by name, each written once as a file without data.
class Headers {
 public:
  const checkpoint::gguf::Model& named(const std::string& name) {
    const auto at = models_.find(name);
    if (at != models_.end()) return at->second;
    return models_.emplace(name, made(read_json_file(kLlamaRows + "headers/" + name + ".json")))
        .first->second;
  }

  checkpoint::gguf::Model made(const Json& recipe) {
    const auto file = scratch_.path(fmt::format("{}.gguf", ++count_));
    testing::write_gguf_header(recipe, file);
    return checkpoint::gguf::Model::open(file);
  }

 private:
  test::Scratch scratch_;
  int count_ = 0;
  std::map<std::string, checkpoint::gguf::Model> models_;
};

std::vector<std::string> words_of(const std::string& args) {
  std::istringstream text(args);
  return {std::istream_iterator<std::string>(text), {}};
}

Answer ask_llama(const checkpoint::gguf::Model& model, const std::string& args,
                 const std::vector<int64_t>& free_mib = {24100}) {
  Question question;
  question.gguf = &model;
  question.words = words_of(args);
  for (size_t i = 0; i < free_mib.size(); ++i) {
    question.cards.push_back(
        {fmt::format("CUDA{}", i), (free_mib[i] + 464) * kMiB, free_mib[i] * kMiB});
  }
  return find_engine("llama.cpp")->ask(question);
}

/// Compute buffers follow rules: 25 % or 64 MiB (the rows' README); all else is equal.
std::string unlike(const Json& row, const Answer& answer) {
  const OrderedJson& sizing = answer.sizing;
  std::string text;
  for (const char* key : {"n_ctx", "n_ctx_seq", "n_batch", "n_ubatch", "n_seq_max", "output_mib"})
    if (Json(sizing[key]) != row[key]) text += fmt::format("{} {}\n", key, sizing[key].dump());
  if (row.contains("fit") && Json(sizing["fit"]) != row["fit"])
    text += "fit " + sizing["fit"].dump() + "\n";
  if (sizing["buffers"].size() != row["buffers"].size()) text += sizing["buffers"].dump() + "\n";
  for (const auto& [name, wanted] : row["buffers"].items()) {
    const Json found = sizing["buffers"].value(name, OrderedJson({0, 0, 0}));
    const auto compute = wanted[2].get<double>();
    const double off = std::abs(found[2].get<double>() - compute);
    const bool close = off <= std::max(64.0 * kMiB, compute / 4);
    if (found[0] != wanted[0] || found[1] != wanted[1] || !close)
      text += fmt::format("{}: {} is wanted, not {}\n", name, wanted.dump(), found.dump());
  }
  return text;
}

}  // namespace

TEST_CASE("llama.cpp's own code is met in every buffer") {
  Headers headers;
  std::ifstream file(kLlamaRows + "llamacpp.jsonl");
  size_t rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const auto row = parse_json<Json>(line);
    INFO(row["id"] << " " << row["file"] << " " << row["args"]);
    std::vector<int64_t> free;
    for (const Json& card : row["cards"]) free.push_back(card["free_mib"]);
    const Answer answer = ask_llama(headers.named(row["file"]), row["args"], free);
    const std::string error = row.value("error", "");
    CHECK((answer.refused ? answer.refused->words : "") == error.substr(0, error.find('\n')));
    if (error.empty()) CHECK(unlike(row, answer) == "");
  }
  CHECK(rows >= 30);
}

TEST_CASE("a card that gives its last split layer away is passed over") {
  Headers headers;
  const auto& model = headers.named("qwen3_30b_a3b.Q4_K_M");
  // Layers 0 to 2 begin on card 1: card 0 makes two of them whole and takes part of the last.
  const std::vector<std::vector<std::string>> wanted = {
      {"2", "ffn_(gate|gate_up|down).*", "CUDA1"},
      {"4", "ffn_(gate|up|gate_up|down).*", "CPU"},
      {"5-48", "ffn_(up|down|gate_up|gate)_(ch|)exps", "CPU"}};
  for (const int64_t middle : {1500, 1600}) {
    const OrderedJson fit = ask_llama(model, "-c 4096", {2200, middle, 2600}).sizing["fit"];
    CHECK(fit["tensor_split"] == OrderedJson({3, 0, 46}));
    CHECK(fit["override_tensor"] == OrderedJson(wanted));
  }
}

TEST_CASE("llama.cpp's flags are refused in its words") {
  Headers headers;
  const auto said = [&](const std::string& args) {
    const Answer answer = ask_llama(headers.named("llama31_8b.Q4_K_M"), args);
    return answer.refused ? answer.refused->words : "";
  };
  CHECK(said("-c 4096 -ngl all") == "");
  CHECK(said("--ctx 4096") == "error: invalid argument: --ctx");
  CHECK(said("-ctk q3_k") ==
        "error while handling argument \"-ctk\": Unsupported cache type: q3_k");
  CHECK(said("-ot ffn=CUDA7") ==
        "error while handling argument \"-ot\": unknown buffer type CUDA7");
  CHECK(said("-ot ffn[=CPU").find("invalid regular expression") != std::string::npos);
  CHECK(said("-sm none -mg 3").find("invalid value for main_gpu: 3") != std::string::npos);
}

TEST_CASE("a launch of llama.cpp asks for a GGUF file") {
  Question question;
  question.config_path = "model/config.json";
  CHECK_THROWS_WITH(find_engine("llamacpp")->ask(question),
                    Catch::Contains("model/config.json: llama.cpp loads GGUF files"));
}

TEST_CASE("what people write beside the flags that move memory moves none") {
  Headers headers;
  const auto& model = headers.named("llama31_8b.Q4_K_M");
  const OrderedJson plain = ask_llama(model, "-c 4096 -fit off").sizing;
  for (const char* words : {
           "--temp 0.6 --typical-p 0.9 --mirostat 2 --repeat-last-n 64 --frequency-penalty 0.1",
           "--xtc-probability 0.5 --xtc-threshold 0.1 --dry-multiplier 0.8 --samplers top_k",
           "--grammar root -j {} --grammar-file g.gbnf -r User: -sp -e -mli --simple-io",
           "--no-escape --no-display-prompt --verbose-prompt --ignore-eos --display-prompt",
           "-C ff -Cb ff -Cr 0-3 -Crb 0-3 --cpu-strict 1 --poll 50 --poll-batch 1 --prio-batch 2",
           "--yarn-ext-factor -1 --yarn-attn-factor 1 --yarn-beta-slow 1 --yarn-beta-fast 32",
           "--api-key-file k --ssl-key-file k --ssl-cert-file c --media-path . --slot-save-path .",
           "-sps 0.5 --sleep-idle-seconds 60 --tags a,b -hft hf_x --sse-ping-interval 5 -lcs a "
           "-lcd b",
           "-rea off --reasoning-budget-message stop --no-reasoning-preserve --skip-chat-parsing "
           "--no-prefill-assistant",
           "--cache-ram {mib} --threads $CORES --port <port> --log-enable",  // as pages have it
       }) {
    INFO(words);
    const Answer answer = ask_llama(model, std::string(words) + " -c 4096 -fit off");
    CHECK((answer.refused ? answer.refused->words : "") == "");
    CHECK(answer.sizing == plain);
  }
}

TEST_CASE("overrides of tensors add up, the first that matches wins") {
  Headers headers;
  const auto& model = headers.named("llama31_8b.Q4_K_M");
  const auto host = [&](const std::string& args) {
    return ask_llama(model, "-c 4096 -fit off " + args)
        .sizing["buffers"]["CUDA_Host"][0]
        .get<int64_t>();
  };
  const int64_t both = host("-ot ffn_up=CPU -ot ffn_gate=CPU");
  CHECK(both == host("-ot ffn_up=CPU,ffn_gate=CPU"));
  CHECK(both > host("-ot ffn_up=CPU"));
  CHECK(host("-ot ffn_up=CUDA0 -ot ffn_up=CPU") == host(""));
  const auto experts = [&](const std::string& args) {
    const Answer answer = ask_llama(headers.named("gpt_oss_20b.MXFP4_MOE"), "-fit off " + args);
    return answer.sizing["buffers"]["CUDA_Host"][0].get<int64_t>();
  };
  CHECK(experts("-cmoe") == experts("-ncmoe 24"));
  CHECK(experts("-ncmoe 2") ==
        experts(R"(-ot blk\.[01]\.ffn_(up|down|gate_up|gate)_(ch|)exps=CPU)"));
}

TEST_CASE("no number of a GGUF header brings llama.cpp's plan down") {
  Headers headers;
  for (const char* name : {"gpt_oss_20b.MXFP4_MOE", "nemotron3_nano.Q4_K_M"}) {
    const Json recipe = read_json_file(kLlamaRows + "headers/" + name + ".json");
    for (size_t i = 2; i < recipe["kv"].size(); ++i) {
      const Json& pair = recipe["kv"][i];
      for (const Json& strange :
           {Json({pair[0], "u64", 0}), Json({pair[0], "u64", uint64_t{1} << 63}),
            Json({pair[0], "i64", -1}), Json({pair[0], "u32", 4294967295U}),
            Json({pair[0], "f32", 1e30}), Json({pair[0], "string", "x"}),
            Json({pair[0], "[i32]", {1, -2}})}) {
        Json changed = recipe;
        changed["kv"][i] = strange;
        INFO(strange.dump());
        try {
          const Answer answer = ask_llama(headers.made(changed), "-np 4 -c 0");
          CHECK((answer.refused || answer.figures.kv_tokens > 0));
        } catch (const Error& error) {
          CHECK(error.what() != std::string());
        }
      }
    }
  }
}
