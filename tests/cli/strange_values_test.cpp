// A value of another kind anywhere in a model's JSON files: each command takes it or refuses it by
// the key's name (status 5), and never ends by a signal or as a bug of ours.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "like_cases.h"
#include "reference/recipe.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;
namespace fs = std::filesystem;

namespace {

const std::vector<Json> kStrange = {nullptr, true, -1, 1e30, "x", Json::array(), Json::object()};
const std::vector<std::string> kFiles = {
    "config.json",           "generation_config.json",   "tokenizer_config.json",
    "processor_config.json", "preprocessor_config.json", "model.safetensors.index.json"};
const std::map<std::string, std::string> kCommands = {
    {"plan", "plimsoll plan $M"},
    {"plan for vLLM", "plimsoll plan $M --engine vllm --gpu h100"},
    {"run", "plimsoll run $M -i lines.jsonl -q --kv-cache-memory 8MiB --max-model-len 64"},
    {"shard", "plimsoll shard $M -o out --dry-run"}};

/// Paths of keys; of lists of objects the first element's.
void collect(const Json& value, const Json::json_pointer& at,
             std::vector<Json::json_pointer>& paths) {
  if (value.is_array() && !value.empty()) collect(value[0], at / 0, paths);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) {
    paths.push_back(at / key);
    collect(inner, at / key, paths);
  }
}

struct Case {
  Json::json_pointer path;
  Json value;
};

/// Whether a refusal names the key or the object around it. null and {} count as absent, and what
/// turns something on may want another key: then the message names the key that is missing or does
/// not go with the default, or the tensor that is not as the file says.
bool names(const std::string& message, const Case& one) {
  const auto key = [&](const Json::json_pointer& path) {
    return !path.empty() && message.find(path.back()) != std::string::npos;
  };
  return key(one.path) || key(one.path.parent_pointer()) ||
         message.find("is missing") != std::string::npos ||
         message.find("tensor") != std::string::npos ||
         (one.value.empty() && message.find("json: \"") != std::string::npos);
}

struct Counts {
  int taken = 0, refused = 0;
};

/// Every value at every key of the file of the scratch folder's "model".
void sweep(const Scratch& scratch, const std::string& file, Counts& counts) {
  const std::string original = scratch.read("model/" + file);
  const Json root = parse_json<Json>(original);
  std::vector<Json::json_pointer> paths;
  collect(root, Json::json_pointer(), paths);
  std::vector<Case> cases;
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t v = 0; v < kStrange.size(); ++v)
      if (testing::is_taken(i + v, 11)) cases.push_back({paths[i], kStrange[v]});
  }
  // A few hundred commands to a shell, which is ended after 100 seconds.
  constexpr size_t kAtOnce = 100;
  for (size_t first = 0; first < cases.size(); first += kAtOnce) {
    const size_t end = std::min(cases.size(), first + kAtOnce);
    for (size_t i = first; i < end; ++i) {
      Json changed = root;
      changed[cases[i].path] = cases[i].value;
      scratch.write(fmt::format("variants/{}.json", i), changed.dump());
    }
    for (const auto& [name, command] : kCommands) {
      const auto outcome =
          shell(scratch,
                fmt::format("M=model; for i in $(seq {} {}); do cp variants/$i.json model/{}; {} "
                            ">/dev/null 2>said; echo $? $(tr '\\n' ' ' <said); done",
                            first, end - 1, file, command));
      std::istringstream lines(outcome.out);
      for (size_t i = first; i < end; ++i) {
        std::string line;
        REQUIRE(std::getline(lines, line));
        const int status = std::stoi(line);
        INFO(name << ", " << file << ": " << cases[i].path.to_string() << " = "
                  << cases[i].value.dump() << ": " << line);
        // 3: a line fails, 6: a length or a factor beyond every card.
        const bool taken = status == 0 || status == 3 || status == 6;
        CHECK((taken || (status == 5 && names(line, cases[i]))));
        ++(taken ? counts.taken : counts.refused);
      }
    }
  }
  scratch.write("model/" + file, original);
}

/// An index beside the one file of the folder.
void write_index(const Scratch& scratch) {
  const std::string bytes = scratch.read("model/model.safetensors");
  uint64_t length = 0;
  std::copy_n(bytes.data(), sizeof length, reinterpret_cast<char*>(&length));
  Json index = {{"metadata", {{"total_size", bytes.size()}}}};
  const Json header = parse_json<Json>(bytes.substr(sizeof length, length));
  for (const auto& [name, tensor] : header.items()) {
    if (index["weight_map"].size() < 3 && name != "__metadata__")
      index["weight_map"][name] = "model.safetensors";
  }
  scratch.write("model/model.safetensors.index.json", index.dump());
}

void sweep_model(const Scratch& scratch, Counts& counts) {
  write_index(scratch);
  fs::create_directories(scratch.path("variants"));
  for (const std::string& file : kFiles)
    if (fs::exists(scratch.path("model/" + file))) sweep(scratch, file, counts);
}

}  // namespace

TEST_CASE("a value of another kind in a model's files is refused by its key's name, or taken") {
  Counts counts;
  {
    const Scratch scratch;
    fs::copy(test::kModel, scratch.path("model"));
    scratch.write("lines.jsonl", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2})");
    sweep_model(scratch, counts);
  }
  for (const char* name : {"qwen2_5_vl", "idefics3", "gemma3"}) {
    const Scratch scratch;
    const fs::path golden =
        fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/multimodal_run" / name;
    testing::write_checkpoint(golden, scratch.path("model"));
    for (const std::string& file : kFiles) {
      const fs::path to = scratch.path("model/" + file);
      if (fs::exists(golden / file) && !fs::exists(to)) fs::copy(golden / file, to);
    }
    fs::copy(golden / "tokenizer.json", scratch.path("model/tokenizer.json"));
    scratch.write("lines.jsonl", R"({"prompt":"hi","max_tokens":2})");
    sweep_model(scratch, counts);
  }
  WARN(counts.taken << " commands took the value, " << counts.refused << " refused it by name");
  CHECK(counts.refused > counts.taken / 4);
}
