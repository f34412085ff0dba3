// Consequences of a parameter of a launch, read off its row.
#include "launch/parameters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

using namespace plimsoll;
using namespace plimsoll::launch;

namespace {

/// A value that is not the default one.
const std::map<std::string, std::string> kOthers = {
    {"--max-model-len", "2k"},
    {"--max-num-seqs", "7"},
    {"--max-num-batched-tokens", "700"},
    {"--enable-chunked-prefill", "false"},
    {"--enable-prefix-caching", "false"},
    {"--gpu-memory-utilization", "0.5"},
    {"--gpu-memory", "3GiB"},
    {"--reserved-memory", "1GiB"},
    {"--kv-cache-memory-bytes", "1GiB"},
    {"--cpu-kvcache-space", "3"},
    {"--num-gpu-blocks-override", "77"},
    {"--block-size", "32"},
    {"--cpu-offload-gb", "2"},
    {"--dtype", "float32"},
    {"--quantization", "fp8"},
    {"--quantized-activations", "off"},
    {"--kv-cache-dtype", "fp8"},
    {"--mamba-ssm-cache-dtype", "float32"},
    {"--mamba-cache-mode", "align"},
    {"--mamba-block-size", "64"},
    {"--deterministic", "true"},
    {"--tensor-parallel-size", "2"},
    {"--pipeline-parallel-size", "2"},
    {"--data-parallel-size", "2"},
    {"--decode-context-parallel-size", "2"},
    {"--enable-expert-parallel", "true"},
    {"--device", "cpu"},
    {"--threads", "3"},
    {"--cpu-isa", "portable"},
    {"--enforce-eager", "true"},
    {"--cudagraph-capture-sizes", "1,2"},
    {"--cuda-graph-sizes", "8"},
    {"--max-cudagraph-capture-size", "8"},
    {"--optimization-level", "1"},
    {"--compilation-config", R"({"cudagraph_capture_sizes": [4]})"},
    {"--engram-config", R"({"cpu_offload": false})"},
    {"--hf-overrides", R"({"a": 1})"},
    {"--rope-scaling", R"({"a": 1})"},
    {"--rope-theta", "5"},
    {"--disable-hybrid-kv-cache-manager", "true"},
    {"--allow-deprecated-quantization", "true"},
    {"--async-scheduling", "false"},
    {"--performance-mode", "throughput"},
    {"--usage", "offline"},
    {"--disable-custom-all-reduce", "true"},
    {"--enable-batch-sharded-sampling", "true"},
    {"--enable-sleep-mode", "true"},
    {"--runner", "pooling"},
    {"--convert", "embed"},
    {"--task", "classify"},
    {"--pooler-config", R"({"pooling_type": "MEAN"})"},
    {"--override-pooler-config", R"({"pooling_type": "CLS"})"},
    {"--attention-backend", "FLASHINFER"},
    {"--flashinfer-sampler", "true"},
    {"--interconnect", "pcie"},
    {"--assume", "worst"},
    {"--enable-lora", "true"},
    {"--max-loras", "3"},
    {"--max-lora-rank", "32"},
    {"--speculative-config", R"({"method": "ngram"})"},
    {"--limit-mm-per-prompt", "image=1"},
    {"--mm-processor-kwargs", R"({"max_pixels": 100352})"},
    {"--language-model-only", "true"},
    {"--skip-mm-profiling", "true"},
    {"--mm-processor-cache-gb", "1"},
};

const Parameter& parameter_of(const std::string& flag) {
  const auto at = std::ranges::find(parameters(), flag, &Parameter::flag);
  REQUIRE(at != parameters().end());
  return *at;
}

/// Flags whose other value gives another record.
std::set<std::string> deciding(const LaunchRequest& usual, bool on_cards) {
  std::set<std::string> flags;
  for (const auto& [flag, value] : kOthers) {
    LaunchRequest other = usual;
    set(other, parameter_of(flag), value);
    if (deciding_values(other, on_cards) != deciding_values(usual, on_cards)) flags.insert(flag);
  }
  return flags;
}

}  // namespace

TEST_CASE("every parameter has another value above") {
  for (const Parameter& parameter : parameters()) {
    INFO(parameter.flag());
    CHECK(kOthers.contains(std::string(parameter.flag())));
    const bool ours =
        parameter.facts.engine == Engine::both || parameter.facts.engine == Engine::plimsoll;
    CHECK((!ours || parameter.value.get != nullptr));
    CHECK((parameter.type.empty() == (parameter.value.form != Form::value)));
  }
  CHECK(kOthers.size() == parameters().size());
}

TEST_CASE("what decides the answers of a run is in its record") {
  const std::set<std::string> anywhere = {"--max-model-len",       "--dtype",
                                          "--quantization",        "--quantized-activations",
                                          "--kv-cache-dtype",      "--limit-mm-per-prompt",
                                          "--mm-processor-kwargs", "--language-model-only"};
  LaunchRequest usual;
  CHECK(deciding(usual, false) == anywhere);
  std::set<std::string> on_cards = anywhere;
  on_cards.insert({"--tensor-parallel-size", "--enable-expert-parallel", "--deterministic"});
  CHECK(deciding(usual, true) == on_cards);

  // The context is what the KV cache holds.
  usual.args.max_model_len = -1;
  std::set<std::string> longest = anywhere;
  longest.insert({"--kv-cache-memory-bytes", "--cpu-kvcache-space", "--num-gpu-blocks-override",
                  "--block-size", "--max-num-batched-tokens"});
  CHECK(deciding(usual, false) == longest);
  longest.merge(on_cards);
  longest.insert({"--gpu-memory-utilization", "--gpu-memory", "--reserved-memory", "--max-num-seqs",
                  "--enable-chunked-prefill", "--pipeline-parallel-size", "--data-parallel-size",
                  "--enforce-eager", "--cudagraph-capture-sizes", "--cuda-graph-sizes",
                  "--max-cudagraph-capture-size", "--optimization-level", "--compilation-config",
                  "--cpu-offload-gb", "--enable-lora", "--speculative-config"});
  CHECK(deciding(usual, true) == longest);
}

TEST_CASE("a value decides by what it says, not by how it is spelled") {
  const auto record = [](const std::string& flag, const std::string& value) {
    LaunchRequest request;
    set(request, parameter_of(flag), value);
    return deciding_values(request, true);
  };
  CHECK(record("--max-model-len", "32k") == record("--max-model-len", "32000"));
  CHECK(record("--max-model-len", "-1") == record("--max-model-len", "auto"));
  CHECK(record("--dtype", "auto") == deciding_values({}, true));
  CHECK(record("--limit-mm-per-prompt", "image=2") ==
        record("--limit-mm-per-prompt", R"({"image": {"count": 2}})"));
}

TEST_CASE("all of --compilation-config that can change a context is in its record") {
  const auto record = [](const std::string& json) {
    LaunchRequest request;
    request.args.max_model_len = -1;
    set(request, parameter_of("--compilation-config"), json);
    return deciding_values(request, true)["compilation_config"];
  };
  for (const char* said : {R"({"cudagraph_capture_sizes": [1]})", R"({"cudagraph_mode": "FULL"})",
                           "2", R"({"mode": 2})", R"({"max_cudagraph_capture_size": 8})",
                           R"({"cudagraph_specialize_lora": false})"}) {
    INFO(said);
    CHECK(record(said) != record("{}"));
  }
}

TEST_CASE("flags are noted as given last, and by who heeds them") {
  LaunchRequest request;
  for (const char* value : {"false", "true", "false"})
    set(request, parameter_of("--async-scheduling"), value);
  set(request, parameter_of("--usage"), "batch");
  set(request, parameter_of("--enforce-eager"), "true");
  set(request, parameter_of("--dtype"), "float32");
  set(request, parameter_of("--dtype"), "float16");
  set(request, parameter_of("--threads"), "4");
  CHECK(given_for_own_engine(request) == std::vector<std::string>{"--threads"});
  CHECK(given_for_vllm(request) == std::vector<std::string>{"--async-scheduling", "--usage"});
  CHECK(given_for_cards(request) == std::vector<std::string>{"--enforce-eager"});
  std::map<std::string, std::string> given;
  for (const Given& one : request.given) given[one.flag] = one.value;
  CHECK(given == std::map<std::string, std::string>{{"--no-async-scheduling", ""},
                                                    {"--usage", "batch"},
                                                    {"--enforce-eager", ""},
                                                    {"--dtype", "float16"},
                                                    {"--threads", "4"}});
}

TEST_CASE("a change of a flag changes arguments as the flag does") {
  vllm::EngineArgs args;
  args.max_num_seqs = 9;
  change(args, "--cpu-offload-gb", "3");
  change(args, "--enforce-eager", "true");
  change(args, "--mm-processor-kwargs", R"({"max_pixels": 5})");
  CHECK(args.max_num_seqs == 9);
  CHECK(args.cpu_offload == int64_t{3} << 30);
  CHECK(args.enforce_eager);
  CHECK(args.processor == std::map<std::string, int64_t>{{"max_pixels", 5}});
  LaunchRequest request;
  CHECK_THROWS_AS(set(request, parameter_of("--dtype"), "bf16"), std::invalid_argument);
  CHECK(request.given.empty());
}

TEST_CASE("each word of a flag is its own value") {
  using vllm::EngineArgs;
  const auto args = [](const char* flag, const char* text) {
    LaunchRequest request;
    set(request, parameter_of(flag), text);
    return request.args;
  };
  CHECK(*args("--rope-theta", "5").overrides == Json{{"rope_theta", 5}});
  CHECK(*args("--rope-scaling", R"({"factor": 2})").overrides ==
        Json{{"rope_scaling", {{"factor", 2}}}});
  CHECK(args("--performance-mode", "interactivity").pace == vllm::Pace::interactivity);
  CHECK(args("--performance-mode", "throughput").pace == vllm::Pace::throughput);
  CHECK(args("--performance-mode", "balanced").pace == vllm::Pace::balanced);
  CHECK(args("--usage", "batch").usage == vllm::Usage::batch);
  CHECK(args("--usage", "offline").usage == vllm::Usage::offline);
  CHECK(args("--interconnect", "nvlink").interconnect == vllm::Interconnect::nvlink);
  CHECK(args("--interconnect", "pcie").interconnect == vllm::Interconnect::pcie);
  CHECK(args("--interconnect", "auto").interconnect == vllm::Interconnect::automatic);
  CHECK(args("--assume", "worst").assume == vllm::Assume::worst);
  CHECK(args("--assume", "middle").assume == vllm::Assume::middle);
  CHECK(args("--attention-backend", "flash_attn").attention_backend == "FLASH_ATTN");
  for (const char* word : {"auto", "AUTO"})
    CHECK(args("--attention-backend", word).attention_backend.empty());
  for (const char* flag : {"--disable-custom-all-reduce", "--disable-hybrid-kv-cache-manager"}) {
    const EngineArgs off = args(flag, "true"), on = args(flag, "false");
    const bool reduces = std::string(flag) == "--disable-custom-all-reduce";
    CHECK((reduces ? off.custom_all_reduce : off.hybrid_kv) == false);
    CHECK((reduces ? on.custom_all_reduce : on.hybrid_kv) == true);
  }
  LaunchRequest request;
  set(request, parameter_of("--cpu-kvcache-space"), "3");
  CHECK(request.host_cache == uint64_t{3} << 30);
  set(request, parameter_of("--mm-processor-cache-gb"), "1.5");
  CHECK(request.processor_cache_gib == 1.5);
  CHECK(request.args.processor_cache_gib == 1.5);
}

TEST_CASE("values of flags are taken at their bounds, and refused beyond") {
  struct Row {
    const char *flag, *taken, *refused;
  };
  for (const Row& row :
       {Row{"--threads", "1024", "1025"}, Row{"--threads", "1", "0"},
        Row{"--max-loras", "1048576", "1048577"}, Row{"--max-loras", "1", "0"},
        Row{"--max-lora-rank", "1048576", "1048577"},
        Row{"--mamba-block-size", "1073741824", "1073741825"}, Row{"--max-num-seqs", "1", "0"},
        Row{"--max-model-len", "1", "0"}, Row{"--cpu-offload-gb", "0", "-1"},
        Row{"--gpu-memory", "65536", "65535"}, Row{"--mm-processor-cache-gb", "0", "-0.1"},
        Row{"--attention-backend", "flashmla_vllm_v1", "flashmlb"},
        Row{"--max-cudagraph-capture-size", "1048576", "1048577"},
        Row{"--optimization-level", "3", "4"}, Row{"--attention-backend", "ROCM_ATTN", "ROC"}}) {
    INFO(row.flag);
    LaunchRequest request;
    CHECK_NOTHROW(set(request, parameter_of(row.flag), row.taken));
    CHECK_THROWS_AS(set(request, parameter_of(row.flag), row.refused), std::invalid_argument);
  }
}
