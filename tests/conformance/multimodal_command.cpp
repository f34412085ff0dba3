// Golden models that see images as a user runs them: the reference's answers, the plan's bytes,
// and the same bytes in any batch, order, cache and number of threads, from shards too.
#include <functional>
#include <map>

#include "cli/program.h"
#include "conformance/golden_models.h"
#include "conformance/image_lines.h"
#include "conformance/rounded_weights.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Outcome;
using test::shell;

namespace {

/// A published folder made of a golden one, and its cases as lines.
class SeeingModel {
 public:
  explicit SeeingModel(const fs::path& golden)
      : name(golden.filename().string()),
        known(parse_json<OrderedJson>(read_maybe_xz(golden / "golden.json"))),
        images_(images_folder()) {
    write_published(golden, scratch.path("model"));
    for (const OrderedJson& c : known["cases"]) {
      OrderedJson line = image_line(c, images_);
      line["id"] = c["name"];
      line["temperature"] = 0;
      line["ignore_eos"] = line["return_token_ids"] = true;
      line["max_tokens"] = c["greedy_token_ids"].size();
      line["prompt_logprobs"] = 0;
      lines.push_back(std::move(line));
    }
    flags_ = " -q --dtype float32 --served-model-name m --allowed-local-media-path '" +
             images_.string() + "' ";
  }

  void write(const std::string& file, const std::vector<OrderedJson>& what) const {
    std::string text;
    for (const OrderedJson& line : what) text += line.dump() + "\n";
    scratch.write(file, text);
  }
  [[nodiscard]] Outcome run(const std::string& flags, const std::string& model = "model") const {
    return shell(scratch, "plimsoll run " + model + flags_ + flags);
  }
  [[nodiscard]] Outcome plan(const std::string& flags) const {
    return shell(scratch, "plimsoll plan model --format json" + flags_.substr(3) + flags);
  }

  test::Scratch scratch;
  std::string name;
  OrderedJson known;
  std::vector<OrderedJson> lines;

 private:
  fs::path images_;
  std::string flags_;
};

std::vector<Json> answers(const Outcome& run, size_t count) {
  INFO(run.err);
  REQUIRE(run.status == 0);
  std::vector<Json> lines = test::json_lines(run.out);
  REQUIRE(lines.size() == count);
  return lines;
}

void check_answer(const OrderedJson& c, const Json& line) {
  const Json& choice = line.at("choices").at(0);
  const auto prompt = c["prompt_token_ids"].get<Ids>();
  CHECK(line.at("usage").at("prompt_tokens") == prompt.size());
  const auto expected = c["prompt_logprobs"].get<std::vector<double>>();
  for (size_t i = 0; i < expected.size(); ++i) {
    const Json& entry = choice.at("prompt_logprobs").at(i + 1).at(std::to_string(prompt[i + 1]));
    INFO("prompt token " << i + 1);
    // The tolerance of multimodal_run, and the six digits that are printed.
    CHECK(std::abs(entry.at("logprob").get<double>() - expected[i]) <=
          5e-4 + 5e-5 * std::abs(expected[i]) + 1e-6);
  }
  const auto greedy = c["greedy_token_ids"].get<Ids>();
  const auto margins = c["greedy_margins"].get<std::vector<double>>();
  const auto found = choice.at("token_ids").get<Ids>();
  REQUIRE(found.size() == greedy.size());
  for (size_t i = 0; i < greedy.size() && margins[i] >= 0.005; ++i) CHECK(found[i] == greedy[i]);
}

/// Each answer by its id; whatever order they came in.
std::map<std::string, Json> by_id(std::vector<Json> lines) {
  std::map<std::string, Json> all;
  for (Json& line : lines) {
    const std::string id = line["id"];
    all[id] = std::move(line);
  }
  return all;
}

/// Checks that the memory that a launch notes, takes and plans is the same.
void check_plan(const SeeingModel& subject, const std::string& flags, const Json& report) {
  const Outcome planned = subject.plan("-i in" + flags);
  INFO(planned.err);
  REQUIRE(planned.status == 0);
  const Json plan = parse_json<Json>(planned.out);
  CHECK(plan.at("prompts").at("prompt_tokens") == report.at("tokens").at("prompt"));
  int64_t total = 0;
  for (const Json& part : plan.at("parts")) total += part.at("bytes").get<int64_t>();
  CHECK(total == report.at("memory").at("planned_bytes"));
  for (const Json& part : report.at("memory").at("parts")) {
    CHECK(part.at("planned_bytes") == part.at("measured_bytes"));
  }
}

void for_each_model(const std::function<void(const SeeingModel&)>& visit) {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    const SeeingModel subject(folder);
    INFO(subject.name);
    visit(subject);
  }
}

}  // namespace

TEST_CASE("lines with images have the reference's answers, and take what plan says") {
  for_each_model([](const SeeingModel& subject) {
    subject.write("in", subject.lines);
    const auto found = answers(subject.run("-i in --report report.json"), subject.lines.size());
    for (size_t i = 0; i < found.size(); ++i) {
      INFO(subject.lines[i]["id"]);
      check_answer(subject.known["cases"][i], found[i]);
    }
    check_plan(subject, "", parse_json<Json>(subject.scratch.read("report.json")));
  });
}

TEST_CASE("a launch takes what plan says whatever number of images it is made for") {
  for_each_model([](const SeeingModel& subject) {
    subject.write("in", {{{"id", "text"}, {"prompt_token_ids", {5, 6, 7}}, {"max_tokens", 1}}});
    for (const std::string flags :
         {" --limit-mm-per-prompt image=0", " --limit-mm-per-prompt image=3",
          " --limit-mm-per-prompt '{\"image\": 1, \"video\": 2}'", " --language-model-only"}) {
      INFO(flags);
      (void)answers(subject.run("-i in --report report.json" + flags), 1);
      check_plan(subject, flags, parse_json<Json>(subject.scratch.read("report.json")));
    }
  });
}

TEST_CASE("plan counts the lines whose images run has no room for, and gives its reason") {
  const std::string small =
      " --limit-mm-per-prompt '{\"image\": {\"count\": 9, \"width\": 28, \"height\": 28}}'";
  const std::vector<std::string> launches = {
      "", " --max-num-batched-tokens 20 --max-num-seqs 1" + small,
      " --max-num-batched-tokens 5 --max-num-seqs 1"};
  std::vector<int64_t> refused(launches.size());
  for_each_model([&](const SeeingModel& subject) {
    subject.write("in", subject.lines);
    for (size_t i = 0; i < launches.size(); ++i) {
      INFO(launches[i]);
      const Outcome planned = subject.plan("-i in" + launches[i]);
      INFO(planned.err);
      REQUIRE(planned.status == 0);
      const Json prompts = parse_json<Json>(planned.out).at("prompts");
      std::vector<std::string> reasons;
      for (const Json& line : test::json_lines(subject.run("-i in" + launches[i]).out)) {
        if (line["error"].is_null()) continue;
        CHECK(line["error"]["code"] == "image_too_large");
        reasons.push_back(line["error"]["message"]);
      }
      CHECK(prompts["bad_lines"] == reasons.size());
      if (!reasons.empty()) CHECK(prompts.value("first_bad_reason", "") == reasons.front());
      refused[i] += std::ssize(reasons);
    }
  });
  CHECK(refused[0] == 0);
  CHECK(refused[1] > 0);
  CHECK(refused[2] > 0);
}

TEST_CASE("an answer to images has the same bytes in any company") {
  const std::vector<std::string> launches = {
      "--max-num-seqs 1", "--max-num-batched-tokens 600 --mm-processor-cache-gb 0",
      "--no-enable-prefix-caching --threads 1", "--threads 3"};
  for_each_model([&](const SeeingModel& subject) {
    subject.write("in", subject.lines);
    const std::string expected = subject.run("-i in").out;
    REQUIRE(!expected.empty());
    // Each line twice, backwards, with text between.
    std::vector<OrderedJson> mixed;
    for (const char* round : {"", "again "}) {
      for (size_t i = subject.lines.size(); i-- > 0;) {
        mixed.push_back(subject.lines[i]);
        mixed.back()["id"] = round + mixed.back()["id"].get<std::string>();
        mixed.push_back({{"id", fmt::format("text {}{}", round, i)},
                         {"prompt_token_ids", {5, 6, 7 + i}},
                         {"max_tokens", 3 + i}});
      }
    }
    subject.write("mixed", mixed);
    const auto alone = by_id(test::json_lines(expected));
    for (const std::string& flags : launches) {
      INFO(flags);
      CHECK(subject.run("-i in " + flags).out == expected);
      auto found = by_id(answers(subject.run("-i mixed " + flags), mixed.size()));
      for (const auto& [id, line] : alone) {
        CHECK(found[id].dump() == line.dump());
        CHECK(found["again " + id]["choices"].dump() == line["choices"].dump());
      }
    }
  });
}

namespace {

/// Answers from the folder `model` and from its shards; how many layouts there are.
int compare_with_shards(const SeeingModel& subject, const std::string& model) {
  int sharded = 0;
  const Outcome whole = subject.run("-i in", model);
  INFO(whole.err);
  REQUIRE(whole.status == 0);
  for (const std::string ranks : {"1", "2"}) {
    INFO(ranks << " ranks");
    const std::string out = model + "_out" + ranks;
    const Outcome shards =
        shell(subject.scratch,
              "plimsoll shard " + model + " -q --dtype float32 -o " + out + " -tp " + ranks);
    INFO(shards.err);
    if (shards.status != 0) {
      CHECK(shards.err.find("always has whole; vLLM refuses it too") != std::string::npos);
      continue;
    }
    const Outcome run = subject.run("--load-format sharded_state -i in", out);
    INFO(run.err);
    CHECK(run.out == whole.out);
    ++sharded;
  }
  return sharded;
}

}  // namespace

TEST_CASE("models that see images run from shards of one and two ranks") {
  int sharded = 0;
  for_each_model([&](const SeeingModel& subject) {
    subject.write("in", subject.lines);
    sharded += compare_with_shards(subject, "model");
  });
  fmt::print("{} launches from shards\n", sharded);
  CHECK(sharded == 14);
}

TEST_CASE("models that see images run from shards with layers and towers in fp8") {
  int sharded = 0;
  for_each_model([&](const SeeingModel& subject) {
    subject.write("in", subject.lines);
    const fs::path plain = subject.scratch.path("model"), stored = subject.scratch.path("stored");
    write_rounded(plain, stored);
    for (const auto& entry : fs::directory_iterator(plain))
      fs::copy(entry.path(), stored / entry.path().filename(), fs::copy_options::skip_existing);
    sharded += compare_with_shards(subject, "stored");
  });
  fmt::print("{} launches from shards in fp8\n", sharded);
  CHECK(sharded >= 8);  // vLLM has InternVL's projectors whole, and SigLIP's MLPs of odd sizes
}

TEST_CASE("captions of a folder by the sample's four lines") {
  const test::Scratch scratch;
  if (shell(scratch, "jq --version").status != 0) return skip("there is no jq");
  for_each_model([](const SeeingModel& model) {
    if (model.name != "qwen2_5_vl") return;
    fs::create_directories(model.scratch.path("photos/a b"));
    fs::copy(images_folder() / "odd_37x53.png", model.scratch.path("photos/a b/100%.png"));
    model.scratch.write("photos/broken.jpg", "no image");
    model.scratch.write("photos/notes.txt", "no image either");
    const Outcome captions = shell(
        model.scratch, "export PATH='" + fs::path(test::kProgram).parent_path().string() +
                           ":'$PATH; bash '" PLIMSOLL_SOURCE_DIR "/samples/captions' model photos");
    INFO(captions.err);
    CHECK(std::ranges::count(captions.out, '\n') == 2);
    CHECK_THAT(captions.out, Catch::Contains("photos/a b/100%.png\t"));
    CHECK_THAT(captions.out,
               Catch::Contains("photos/broken.jpg\tmessages[0].content[0]: is none of"));
  });
}
