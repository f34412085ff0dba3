// Command lines of other engines from public pages, in the spelling in which they stand there: each
// is taken, with the flags that move memory, or refused by what no plan is known for.
#include <fmt/ranges.h>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <span>

#include "base/error.h"
#include "base/split_text.h"
#include "checkpoint/gguf/model.h"
#include "cli/plan/options.h"
#include "cli/program.h"
#include "engines/engine.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;

namespace {

const std::string kEngineRows = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/";

/// The model that stands for each line's own.
struct StandIn {
  explicit StandIn(const test::Scratch& scratch) {
    config = read_json_file(kEngineRows + "configs/meta-llama__Meta-Llama-3.1-8B.json");
    config["max_position_embeddings"] = 1 << 21;  // beyond the longest context that a line asks for
    config.erase("rope_scaling");
    const std::string file = scratch.path("model.gguf");
    testing::write_gguf_header(read_json_file(kEngineRows + "headers/llama31_8b.Q4_K_M.json"),
                               file);
    gguf.emplace(checkpoint::gguf::Model::open(file));
    for (int i = 0; i < 4; ++i)
      cards.push_back({fmt::format("CUDA{}", i), int64_t{80} << 30, int64_t{79} << 30});
  }

  [[nodiscard]] engines::Question question() const {
    engines::Question question;
    question.config = &config;
    question.config_path = "config.json";
    question.gpu = &hardware::find_gpu("h200");
    question.free = engines::FreeMemory{130, 110};
    question.gguf = &*gguf;
    question.cards = cards;
    question.read_config = [this](const std::string&) { return config; };
    return question;
  }

  Json config;
  std::optional<checkpoint::gguf::Model> gguf;
  std::vector<engines::Card> cards;
};

/// The flags that move memory, in order, as "--ctx-size 4096 --swa-full".
std::string flags_read(const engines::Engine& engine, const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    const engines::Flag* const flag = engines::find_flag(engine.flags, words[i]);
    if (flag == nullptr || !words[i].starts_with('-')) continue;
    const size_t equals = words[i].find('=');
    const size_t count = equals == std::string::npos
                             ? engines::count_values(*flag, std::span(words).subspan(i + 1))
                             : 0;
    std::string shown(split_text(flag->names, ",").front());
    if (equals != std::string::npos) shown += " " + words[i].substr(equals + 1);
    for (size_t k = 0; k < count; ++k) shown += " " + words[++i];
    if (flag->moves) text += (text.empty() ? "" : " ") + shown;
  }
  return text;
}

struct Reading {
  std::string engine, release, flags, file, refused;
};

Reading reading_of(const std::string& line, const StandIn& model) {
  Reading reading;
  PlanOptions options;
  try {
    std::vector<std::string> arguments = expand_pasted_line({"plan", "--from", line}, options);
    reading.engine = options.engine;
    reading.release = options.engine_version;
    arguments.insert(arguments.end(), {"--model", "m"});
    (void)take_engine_words(arguments, options);
    const engines::Engine* const engine = engines::find_engine(options.engine);
    if (engine == nullptr) return reading;
    engines::Question question = model.question();
    question.words = options.engine_words;
    question.version = options.engine_version;
    question.variables = options.engine_variables;
    question.file_fields = options.engine_file_fields;
    reading.flags = flags_read(*engine, options.engine_words);
    if (!options.engine_file_fields.is_null()) reading.file = options.engine_file_fields.dump();
    const engines::Answer answer = engine->ask(question);
    if (answer.refused) reading.refused = answer.refused->words;
  } catch (const Error& error) {
    reading.refused = error.what();
  }
  return reading;
}

}  // namespace

TEST_CASE("public command lines of other engines are taken, or refused by name") {
  const test::Scratch scratch;
  const StandIn model(scratch);
  std::ifstream file(kEngineRows + "pasted.jsonl");
  std::map<std::string, int> taken;
  int refused = 0;
  for (std::string text; std::getline(file, text);) {
    const Json row = parse_json<Json>(text);
    const auto wanted = [&](const char* key) { return row.value(key, std::string()); };
    INFO(wanted("from") << "\n" << wanted("line"));
    const Reading reading = reading_of(wanted("line"), model);
    CHECK(reading.engine == wanted("engine"));
    CHECK(reading.release == wanted("release"));
    CHECK(reading.refused == wanted("refused"));
    if (row.contains("refused")) {
      ++refused;
      continue;
    }
    CHECK(reading.flags == wanted("reads"));
    CHECK(reading.file == (row.contains("file") ? row["file"].dump() : ""));
    ++taken[reading.engine];
  }
  CHECK(refused == 57);
  CHECK(taken == std::map<std::string, int>{{"llamacpp", 64},
                                            {"lmdeploy", 30},
                                            {"sglang", 73},
                                            {"tensorrt-llm", 22},
                                            {"transformers", 3}});
}

TEST_CASE("every program of llama.cpp that takes its common flags is known by its name") {
  using Words = std::vector<std::string>;
  const std::vector<std::pair<const char*, Words>> programs = {
      {"llama-server", {}},
      {"llama-cli", {"--parallel", "1"}},  // one sequence, where a server has four
      {"llama-mtmd-cli", {"--parallel", "1"}},
      {"llama-completion", {"--fit-print", "on"}},  // logits of each token
      {"llama-fit-params", {"--fit-print", "on"}},
  };
  for (const auto& [program, defaults] : programs) {
    INFO(program);
    PlanOptions options;
    const std::string line = std::string("./build/bin/") + program + " -m m.gguf -c 4096";
    Words wanted = {"plan"};
    wanted.insert(wanted.end(), defaults.begin(), defaults.end());
    wanted.insert(wanted.end(), {"-m", "m.gguf", "-c", "4096"});
    CHECK(expand_pasted_line({"plan", "--from", line}, options) == wanted);
    CHECK(options.engine == "llamacpp");
  }
}

TEST_CASE("variables of a launch and what its shell computes count as flags") {
  const test::Scratch scratch;
  const StandIn model(scratch);
  struct Row {
    const char* line;
    const char* flags;
  };
  for (const Row& row : {
           Row{"llama-server -m m -fa -c 4096", "--flash-attn --ctx-size 4096"},
           Row{"llama-server -m m -fa auto --color -np 2", "--flash-attn auto --parallel 2"},
           Row{"LLAMA_ARG_CTX_SIZE=512 LLAMA_ARG_UBATCH=64 llama-server -c 256",
               "--ctx-size 512 --ubatch-size 64 --ctx-size 256"},
           Row{"LLAMA_ARG_KV_OFFLOAD=0 LLAMA_ARG_SWA_FULL=true LLAMA_ARG_CPU_MOE=off llama-server",
               "--no-kv-offload --swa-full"},
           Row{"LLAMA_ARG_BATCH_SIZE=64 LLAMA_ARG_PARALLEL=2 LLAMA_ARG_PORT=1 llama-server", ""},
           Row{"docker run -e LLAMA_ARG_N_PARALLEL=3 ghcr.io/ggml-org/llama.cpp:server-cuda",
               "--parallel 3"},
           Row{"llama-server -t $(nproc) -c $((41 * 1024)) -np 2", "--ctx-size 41984 --parallel 2"},
           Row{"OUT=$(llama-cli -m m -c 512)", "--parallel 1 --ctx-size 512"},
           Row{"llama-server --chat-template-file <(cat a b) -c 512", "--ctx-size 512"},
           Row{"llama-server --port $PORT $ARGS -c 512 ...", "--ctx-size 512"},
           Row{"llama-server \\\n > -c 512 \\\n > -np 2", "--ctx-size 512 --parallel 2"},
           Row{"CUDA_VISIBLE_DEVICES=0 \\\n> ./llama-server \\\n> -c 512", "--ctx-size 512"},
           Row{"llama-server -c 512 \\\n > log.txt", "--ctx-size 512"},
           Row{"~/llama.cpp $ ./llama-server -c 512", "--ctx-size 512"},
           Row{"root@host:~# ./llama-server -c 512", "--ctx-size 512"},
           Row{".\\llama-server -c 512 ^\n -np 2 \\", "--ctx-size 512 --parallel 2"},
           Row{"docker\xC2\xA0run a/lmdeploy:x bash -c 'lmdeploy serve api_server <model> --tp 2'",
               "--tp 2"},
           Row{"mpirun -mca a \"-p 2\" trtllm-llmapi-launch trtllm-serve m --tp 2", "--tp-size 2"},
           Row{"lmdeploy serve api_server m --adapters a=b c=d --api-keys x y --tp 2",
               "--adapters a=b c=d --tp 2"},
           Row{"cat <<EOF > ./s.yaml\ntp-size: 2\nmodel-path: x\nEOF\n"
               "sglang serve --config s.yaml --page-size 8",
               "--tensor-parallel-size 2 --page-size 8"},
           Row{"cat <<EOF | sudo tee s.yaml\r\n  tp-size: 2\r\n\tEOF \r\n"
               "sglang serve --model-path x --config s.yaml",
               "--tensor-parallel-size 2"},
           Row{"cat <<A > a.yaml && cat <<B > b.yaml\ntp-size: 2\nA\ntp-size: 4\nB\n"
               "sglang serve --model-path x --config a.yaml",
               "--tensor-parallel-size 2"},
           Row{"cat <<EOF > s.yaml\nllama-server -m m -c 512", "--ctx-size 512"},
       }) {
    INFO(row.line);
    const Reading reading = reading_of(row.line, model);
    CHECK(reading.refused == "");
    CHECK(reading.flags == row.flags);
  }
}

TEST_CASE("TensorRT-LLM's YAML file wins over flags, field by field") {
  const test::Scratch scratch;
  const StandIn model(scratch);
  const auto answer = [&](const std::string& line) {
    PlanOptions options;
    std::vector<std::string> arguments = expand_pasted_line({"plan", "--from", line}, options);
    (void)take_engine_words(arguments, options);
    engines::Question question = model.question();
    question.words = options.engine_words;
    question.file_fields = options.engine_file_fields;
    return engines::find_engine("tensorrt-llm")->ask(question);
  };
  const std::string serve = "trtllm-serve m --max_batch_size 8 --free_gpu_memory_fraction 0.5";
  const auto with = [&](const std::string& yaml) {
    return answer("cat > /tmp/o.yml <<'EOF'\n" + yaml + "\nEOF\n" + serve +
                  " --extra_llm_api_options /tmp/o.yml");
  };
  const OrderedJson plain = answer(serve).resolved;
  CHECK(plain["free_gpu_memory_fraction"] == 0.5);
  const OrderedJson merged = with("max_batch_size: 4\nkv_cache_config:\n  dtype: fp8").resolved;
  CHECK(merged["max_batch_size"] == 4);
  CHECK(merged["kv_cache_dtype"] == "fp8");
  CHECK(merged["free_gpu_memory_fraction"] == 0.5);  // the flag's, which the file does not state
  CHECK(with("kv_cache_config: {max_tokens: 640}").sizing["max_tokens"] == 640);
  CHECK(with("kv_cache_config: {free_gpu_memory_fraction: 0.25}").sizing["max_tokens"] <
        answer(serve).sizing["max_tokens"]);
  CHECK(with("pipeline_parallel_size: 2").sizing.is_null());
  const engines::Answer drafts = with("speculative_config: {decoding_type: MTP}");
  CHECK_THAT(fmt::format("{}", fmt::join(drafts.notes, "\n")), Contains("speculative_config: "));
  CHECK(answer(serve + " --kv_cache_dtype nvfp4").notes.back() ==
        "kv_cache_config.dtype nvfp4: counted as 16 bits");
  CHECK(answer("echo -e \"max_seq_len: 512\\nmax_num_tokens: 64\" > o.yml\n" + serve +
               " --config ./o.yml")
            .resolved["max_num_tokens"] == 64);
  CHECK_THROWS_WITH(with("- a"), Contains("--extra-llm-api-options /tmp/o.yml: expected"));
}

TEST_CASE("what a pasted line says beside its flags reaches the engine") {
  const test::Scratch scratch;
  const StandIn model(scratch);
  const std::string longer = "sglang serve --model-path m --context-length 99999999";
  CHECK_THAT(reading_of(longer, model).refused, Contains("User-specified context_length"));
  CHECK(reading_of("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 " + longer, model).refused == "");
  CHECK(reading_of("sglang serve --model m --cuda-graph-max-bs 8", model).release == "0.5.19");
  CHECK(reading_of("docker run lmsysorg/sglang:v0.4.7.post1-cu124 sglang serve --model m", model)
            .release == "0.4.7");
  CHECK(reading_of("lmdeploy serve api_server m --quant-policy int8", model).refused == "");
  CHECK_THAT(reading_of("lmdeploy serve api_server m --quant-policy int3", model).refused,
             Contains("invalid quant_policy"));
  PlanOptions options;
  const auto download = expand_pasted_line({"plan", "--from", "llama-server -hf a/b:Q4"}, options);
  CHECK_THROWS_WITH(take_engine_words(download, options),
                    Contains("-hf a/b:Q4: llama-server downloads") && Contains("-m FILE.gguf"));
  options = {};
  const auto named =
      expand_pasted_line({"plan", "--from", "LLAMA_ARG_HF_REPO=a/b llama-server"}, options);
  CHECK_THROWS_WITH(take_engine_words(named, options), Contains("--hf-repo a/b: llama-server"));
  options = {};
  (void)expand_pasted_line({"plan", "--from", "CUDA_VISIBLE_DEVICES=1,2 llama-server -m m"},
                           options);
  CHECK(options.gpus_pasted == 2);
}

TEST_CASE("a model that SGLang's file of flags names is the plan's") {
  PlanOptions options;
  const auto words = expand_pasted_line(
      {"plan", "--from", "cat <<E > c.yaml\nmodel-path: x\nE\nsglang serve --config c.yaml"},
      options);
  CHECK(take_engine_words(words, options) == std::vector<std::string>{"plan", "x"});
  options = {};
  const auto both = expand_pasted_line({"plan", "--from",
                                        "cat <<E > c.yaml\nmodel-path: x\nE\nsglang serve --config "
                                        "c.yaml --model-path y"},
                                       options);
  CHECK(take_engine_words(both, options) == std::vector<std::string>{"plan", "y"});
}

TEST_CASE("a former flag in SGLang's file chooses the release as on the line") {
  const auto release = [](const std::string& file, const std::string& line) {
    PlanOptions options;
    const auto words = expand_pasted_line(
        {"plan", "--from", "cat <<E > c.yaml\nmodel-path: x\n" + file + "\nE\n" + line}, options);
    (void)take_engine_words(words, options);
    const std::string chosen = "planned as sglang " + options.engine_version + ", the last";
    CHECK((options.release_note.empty() || options.release_note.starts_with(chosen)));
    return options.engine_version;
  };
  const std::string serve = "sglang serve --config c.yaml";
  CHECK(release("page-size: 1", serve) == "");
  CHECK(release("cuda-graph-max-bs: 8", serve) == "0.5.19");
  CHECK(release("enable-deepep-moe: true", serve + " --cuda-graph-max-bs 8") == "0.5.0");
  CHECK(release("cuda-graph-max-bs: 8", serve + " --enable-deepep-moe") == "0.5.0");
  CHECK(release("cuda-graph-max-bs: 8", "docker run lmsysorg/sglang:v0.5.4 " + serve) == "0.5.4");
}

TEST_CASE("what is pasted to do harm is refused at once") {
  const test::Scratch scratch;
  const StandIn model(scratch);
  for (const char* serve :
       {"trtllm-serve m --extra_llm_api_options c.yaml", "sglang serve m --config c.yaml"}) {
    INFO(serve);
    const std::string line = std::string("cat <<'E' > c.yaml\na: &x {b: *x}\nE\n") + serve;
    CHECK_THAT(reading_of(line, model).refused, Contains("--from: "));
  }
  std::string chain = "mpirun ";
  for (int i = 0; i < 200; ++i) chain += "trtllm-llmapi-launch mpirun ";
  CHECK_THAT(reading_of(chain, model).refused, Contains("no launch of vLLM was found"));
  std::string calls = "from vllm import LLM\nLLM('m', x=";
  std::string words = "mpirun ";
  for (int i = 0; i < 5000; ++i) {
    calls += "dict(a=";
    words += "python vllm==0.12.0 ";
  }
  CHECK(reading_of(calls, model).refused == "");
  CHECK_THAT(reading_of(words, model).refused, Contains("no launch of vLLM was found"));
  std::string documents = "A=" + std::string(300'000, 'a') + "\n";
  for (int i = 0; i < 100; ++i) documents += "cat <<E > f" + std::to_string(i) + "\n$A\nE\n";
  CHECK_THAT(reading_of(documents + "llama-server -m m", model).refused, Contains("1 MiB"));
  for (const char* line : {"\n", "# c\n", " \n", "os.environ['\n", "os.environ[\n"}) {
    std::string lines = "from vllm import LLM\n";
    while (lines.size() < 400'000) lines += line;
    CHECK(reading_of(lines + "LLM('m')", model).engine == "vllm");
  }
  std::string imports;
  while (imports.size() < 400'000) imports += "from lmdeploy (\n";
  CHECK(reading_of(imports + "LLM('m')", model).engine == "vllm");
  for (const char* blank : {" ", "\n", " \n", "\t\r\n"}) {  // each is looked at once
    std::string blanks;
    while (blanks.size() < 400'000) blanks += blank;
    CHECK(reading_of("llama-server -m m" + blanks + "x", model).engine == "llamacpp");
  }
  CHECK(reading_of("# tensorrt_llm was slower\nfrom vllm import LLM\nLLM('m')", model).refused ==
        "");
}
