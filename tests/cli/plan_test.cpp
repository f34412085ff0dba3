// `plimsoll plan` as a user calls it, and the worked cases of samples/plans.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "cli/plan/options.h"
#include "cli/program.h"
#include "launch/values.h"
#include "model/vllm/version.h"

using namespace plimsoll;

namespace {

const std::string kPlans = std::string(PLIMSOLL_SOURCE_DIR) + "/samples/plans";

struct Answer {
  std::string text;
  int status = 0;
};

/// Runs a shell line in samples/plans with the built program on the path.
Answer shell_line(const std::string& line) {
  const std::string folder = std::filesystem::path(test::kProgram).parent_path().string();
  const std::string command =
      "cd '" + kPlans + "' && PATH='" + folder + "':$PATH COLUMNS=80 sh -c '" + line + "' 2>&1";
  Answer answer;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> chunk{};
  size_t count = 0;
  while ((count = fread(chunk.data(), 1, chunk.size(), pipe)) > 0)
    answer.text.append(chunk.data(), count);
  const int status = pclose(pipe);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

struct Case {
  std::string command;
  std::string expected;
};

/// Commands ("$ ...") of the fenced blocks, each with the lines that follow it.
std::vector<Case> worked_cases() {
  std::ifstream file(kPlans + "/README.md");
  std::vector<Case> cases;
  bool fenced = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced && line.starts_with("$ ")) {
      cases.push_back({line.substr(2), ""});
    } else if (fenced && !cases.empty()) {
      cases.back().expected += line + "\n";
    }
  }
  return cases;
}

}  // namespace

/// Without line feeds at the end.
std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

TEST_CASE("the worked cases print what their page says") {
  const std::vector<Case> cases = worked_cases();
  REQUIRE(cases.size() >= 10);
  for (const Case& c : cases) {
    INFO(c.command);
    CHECK(trimmed(shell_line(c.command).text) == trimmed(c.expected));
  }
}

TEST_CASE("exit status of plan: fits, does not fit, usage, unreadable model") {
  CHECK(shell_line("plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100").status == 0);
  CHECK(shell_line("plimsoll plan configs/llama-2-70b.json --engine vllm --gpu 4090").status == 6);
  CHECK(
      shell_line("plimsoll plan configs/llama-2-70b.json --engine vllm --gpu h100 -tp 3").status ==
      2);
  CHECK(shell_line("plimsoll plan configs/llama-2-70b.json --engine vllm --gpu voodoo2").status ==
        2);
  CHECK(shell_line("plimsoll plan configs/llama-2-70b.json --max-model-len 0").status == 2);
  CHECK(shell_line("plimsoll plan configs/missing.json").status == 5);
  CHECK(shell_line("plimsoll plan --gpu list").status == 0);
  CHECK(shell_line("plimsoll plan configs/llama-3.1-8b.json --engine vllm").status == 0);
}

TEST_CASE("JSON is printed when it does not fit, with the reason and the length that would") {
  const Answer answer = shell_line(
      "plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --available-kv-memory 4GiB "
      "--format json");
  CHECK(answer.status == 6);
  const Json json = parse_json<Json>(answer.text);
  CHECK(json["fits"] == false);
  CHECK(json["num_gpu_blocks"] == 2048);
  CHECK(json["auto_max_model_len"] == 32752);
  CHECK(json["estimated_max_model_len"] == 32752);
}

TEST_CASE("a broken --compilation-config is refused under the flag's name") {
  const test::Scratch scratch;
  const auto status_with = [&](const std::string& flag, const std::string& value) {
    return test::shell(scratch, "plimsoll plan " + test::kConfigs +
                                    "llama-3.1-8b.json --engine vllm --gpu h100 " + flag + " '" +
                                    value + "'")
        .status;
  };
  for (const std::string flag : {"-O", "--compilation-config"}) {
    for (const char* value :
         {"{", "[1]", "4", "-1", "x", "{\"level\": 9}", "{\"cudagraph_mode\": \"SOME\"}",
          "{\"cudagraph_mode\": {}}", "{\"cudagraph_capture_sizes\": [1, \"a\"]}",
          "{\"cudagraph_capture_sizes\": [0]}"}) {
      INFO(flag << " " << value);
      CHECK(status_with(flag, value) == 2);
    }
    for (const char* value :
         {"3", "{}", "{\"cudagraph_mode\": \"full\"}", "{\"cudagraph_capture_sizes\": [1, 2]}"}) {
      INFO(flag << " " << value);
      CHECK(status_with(flag, value) == 0);
    }
  }
}

TEST_CASE("a pasted line of vLLM is read, and what is given beside it has the last word") {
  const Answer answer = shell_line(
      "plimsoll plan --from \"VLLM_X=1 vllm serve configs/llama-3.1-8b.json --max-num-seqs 64 "
      "--max_model_len 8192 "
      "--enable-lora --gpu-memory-utilization=0.8\" --gpu h100 --max-model-len 4096 --format json");
  CHECK(answer.status == 0);
  const Json json = parse_json<Json>(answer.text);
  CHECK(json["engine"] == "vllm");
  CHECK(json["max_num_seqs"] == 64);
  CHECK(json["max_model_len"] == 4096);
  CHECK(json["gpu_memory_utilization"] == 0.8);
}

TEST_CASE("what reads the weights moves no memory of vLLM; ours refuses what it does not read") {
  const test::Scratch scratch;
  const std::string plan =
      "plimsoll plan " + test::kConfigs + "llama-2-7b.json --gpu h100 --format json";
  const Json without = parse_json<Json>(test::shell(scratch, plan + " --engine vllm").out);
  for (const char* format : {"bitsandbytes", "runai_streamer", "tensorizer", "gguf", "pt"}) {
    INFO(format);
    const std::string flag = std::string(" --load-format ") + format;
    const test::Outcome planned = test::shell(scratch, plan + " --engine vllm" + flag);
    REQUIRE(planned.status == 0);
    CHECK(parse_json<Json>(planned.out)["parts"] == without["parts"]);
    const test::Outcome ours = test::shell(scratch, plan + flag);
    CHECK(ours.status == 2);
    CHECK_THAT(ours.err,
               Catch::Contains("--load-format: expected auto, safetensors, sharded_state"));
  }
  for (const auto& [format, said] : {std::pair{"safetensor", "did you mean safetensors?"},
                                     {"ipc_cache", "no form of vLLM's that plan knows"}}) {
    INFO(format);
    const test::Outcome refused =
        test::shell(scratch, plan + " --engine vllm --load-format " + format);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Catch::Contains(said));
  }
}

TEST_CASE("sizes of a launch are what vLLM takes them for: bare ones of --cpu-offload-gb are GiB") {
  struct Row {
    const char* size;
    int64_t bytes;
  };
  for (const Row& row : {Row{"4", int64_t{4} << 30}, Row{"0.5", int64_t{1} << 29},
                         Row{"4GB", 4000000000}, Row{"4GiB", int64_t{4} << 30}}) {
    INFO(row.size);
    const Json json = parse_json<Json>(
        shell_line(
            std::string(
                "plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --format json "
                "--cpu-offload-gb ") +
            row.size)
            .text);
    int64_t moved = 0;
    for (const Json& part : json["parts"]) {
      if (part["name"] == "weights: offloaded to the host") moved = -part["bytes"].get<int64_t>();
    }
    CHECK(moved == row.bytes);
  }
}

TEST_CASE("a size of --gpu-memory is vLLM's share of what PyTorch sees of a card") {
  // An H100 has 81559 MiB by nvidia-smi, of which the driver keeps 469.
  constexpr double kGib = 1024;
  struct Row {
    const char* flags;
    double share;
  };
  for (const Row& row : {Row{"--gpu h100 --gpu-memory 40GiB", 40 * kGib / (81559 - 469)},
                         Row{"--gpu h100 --gpu-memory 40GiB -tp 2", 40 * kGib / (81559 - 469)},
                         Row{"--gpu h100 --gpu-total-memory 64GiB --gpu-memory 40GiB",
                             40 * kGib / (64 * kGib - 469)},
                         Row{"--gpu h100 --gpu-memory 79GiB", 79 * kGib / (81559 - 469)},
                         Row{"--gpu h100 --gpu-memory 81559MiB", 1}}) {
    INFO(row.flags);
    const std::string plan =
        std::string("plimsoll plan configs/llama-3.1-8b.json --engine vllm ") + row.flags;
    const Json json = parse_json<Json>(shell_line(plan + " --format json").text);
    CHECK(json["gpu_memory_utilization"].get<double>() == Approx(row.share).epsilon(1e-9));
    CHECK(json["budget_bytes"].get<double>() ==
          Approx(row.share * json["total_bytes"].get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("memory that others hold may keep vLLM from starting") {
  const std::string plan =
      "plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --reserved-memory ";
  CHECK(shell_line((plan + "1GiB").c_str()).status == 0);
  CHECK(shell_line((plan + "20GiB").c_str()).status == 6);
}

TEST_CASE("limits of modalities in both forms") {
  vllm::EngineArgs args;
  launch::read_modality_limits("image=2,video=0", args);
  CHECK(args.limits.at("image").count == 2);
  CHECK(args.limits.at("video").count == 0);
  launch::read_modality_limits(R"({"image": {"count": 5, "width": 512, "height": 256}})", args);
  CHECK(args.limits.at("image").count == 5);
  CHECK(args.limits.at("image").width == 512);
  CHECK_THROWS_AS(launch::read_modality_limits("images", args), std::invalid_argument);
  CHECK_THROWS_AS(launch::read_modality_limits(R"({"image": "many"})", args),
                  std::invalid_argument);
}

TEST_CASE("the page of --format html stands alone") {
  const Answer answer =
      shell_line("plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --format html");
  CHECK(answer.text.starts_with("<!doctype html>"));
  CHECK(answer.text.find("http") == std::string::npos);
  CHECK(answer.text.find("const plan={") != std::string::npos);
}

TEST_CASE("a card's total is the one that nvidia-smi shows, and the answer says so") {
  const Answer stated = shell_line(
      "plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --gpu-total-memory "
      "81559MiB --max-model-len 4096");
  const Answer named = shell_line(
      "plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --max-model-len 4096");
  CHECK(stated.status == 0);
  CHECK(stated.text.starts_with(named.text));
  CHECK_THAT(stated.text, Catch::Contains("keeps 469.0 MiB of it, and PyTorch sees 79.19 GiB"));
  const Answer list = shell_line("plimsoll plan --gpu list | grep -e name -e H100-SXM5");
  CHECK_THAT(list.text, Catch::Contains("nvidia-smi    PyTorch") && Catch::Contains("79.65 GiB") &&
                            Catch::Contains("79.19 GiB"));
}

TEST_CASE("questions turned around say what is missing, and limits are those of the launch") {
  const std::string plan = "plimsoll plan configs/llama-3.1-8b.json --engine vllm ";
  const Answer no_card = shell_line((plan + "--gpus auto 2>&1").c_str());
  CHECK(no_card.status == 2);
  CHECK_THAT(no_card.text, Catch::Contains("--gpus auto: name the card too"));
  CHECK_THAT(shell_line((plan + "--gpu h100 --gpus 3 2>&1").c_str()).text,
             Catch::Contains("--gpus 3, taken as --tensor-parallel-size 3: "));
  CHECK_THAT(shell_line((plan + "--gpu 4090 --max-model-len auto").c_str()).text,
             !Catch::Contains("Limits: context 131072"));
  CHECK_THAT(shell_line((plan + "--gpu h100 --explain weights").c_str()).text,
             Catch::Contains("weights: mlp") && Catch::Contains("weights: attention"));
  CHECK_THAT(shell_line((plan + "--gpu h100 --vllm-version 0.99 | head -2").c_str()).text,
             Catch::Contains("0.99.0 (not known yet: planned as " +
                             model::version_text(model::kNewestRelease) + ")"));
}

TEST_CASE("--gpus says the ranks where no flag divides the launch") {
  struct Row {
    const char* flags;
    int64_t gpus;
  };
  for (const Row& row : {Row{"", 4}, Row{"-tp 1", 1}, Row{"-tp 2", 2}, Row{"-pp 2", 2},
                         Row{"-dp 2", 2}, Row{"-pp 2 -dp 2", 4}}) {
    INFO(row.flags);
    const std::string line =
        std::string("plimsoll plan configs/llama-3.1-8b.json --engine vllm --gpu h100 --gpus 4 ") +
        row.flags + " --format json";
    const Answer answer = shell_line(line.c_str());
    CHECK(answer.status == 0);
    CHECK(parse_json<Json>(answer.text)["gpus"] == row.gpus);
  }
}

TEST_CASE("--gpu says how many cards, as people write it") {
  struct Row {
    std::vector<std::string> flags;
    std::string gpu;
    std::optional<int64_t> gpus;
  };
  const auto read = [](std::vector<std::string> flags) {
    cli::PlanOptions options;
    CLI::App app("", "");
    cli::declare_plan_flags(app, options);
    std::ranges::reverse(flags);  // CLI11 takes the first from the back
    app.parse(flags);
    return options;
  };
  for (const Row& row : std::vector<Row>{{{"--gpu", "8xH100"}, "H100", 8},
                                         {{"--gpu", "4090x2"}, "4090", 2},
                                         {{"--gpu", "2x4090"}, "4090", 2},
                                         {{"--gpu", "2x RTX 4090"}, "RTX 4090", 2},
                                         {{"--gpu", "4 x A100-80GB"}, "A100-80GB", 4},
                                         {{"--gpu", "H100 x 8"}, "H100", 8},
                                         {{"--gpu", "H200 x4"}, "H200", 4},
                                         {{"--gpu", "H100x8"}, "H100", 8},
                                         {{"--gpu", "A100:2"}, "A100", 2},
                                         {{"--gpus", "8", "--gpu", "8xH100"}, "H100", 8},
                                         {{"--gpu", "RTX 4090"}, "RTX 4090", std::nullopt},
                                         {{"--gpu", "3090,4090"}, "3090,4090", std::nullopt},
                                         {{"--gpu", "T4", "--gpus", "2"}, "T4", 2}}) {
    INFO(row.flags.back());
    const cli::PlanOptions options = read(row.flags);
    CHECK(options.gpu == row.gpu);
    CHECK(options.gpus == row.gpus);
  }
  CHECK_THROWS_WITH(read({"--gpu", "8xH100", "--gpus", "4"}),
                    Catch::Contains("--gpu names 8 cards already"));
  CHECK_THROWS_WITH(read({"--gpu", "0xH100"}), Catch::Contains("at least 1"));
}
