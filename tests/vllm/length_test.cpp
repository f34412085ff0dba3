// The context that a config allows, as vLLM's _get_and_verify_max_len derives it.
#include "vllm/launch/length.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

const char* const kKeys[] = {
    "max_position_embeddings", "n_positions",         "max_seq_len",    "seq_length",
    "max_target_positions",    "max_sequence_length", "max_seq_length", "seq_len"};

ModelLength length_of(const Json& config) {
  return model_length(ConfigView(config, "config.json"), {});
}

/// The message that refuses a length; empty: it is taken.
std::string refusal(const Json& config, int64_t asked, VllmVersion version = {}) {
  const ConfigView view(config, "config.json");
  try {
    check_length(model_length(view, version), asked, view, version);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("of the lengths that a config states the smallest is the bound, whatever its key") {
  for (const char* smallest : kKeys) {
    INFO(smallest);
    Json config;
    int64_t larger = 8192;
    for (const char* key : kKeys) config[key] = larger++;
    config[smallest] = 2048;
    const ModelLength length = length_of(config);
    CHECK(length.stated);
    CHECK(length.usual == 2048);
    CHECK(length.most == 2048);
    CHECK(length.reach == 2048);
    CHECK(length.key == smallest);
    CHECK(length_of({{smallest, 4096}}).most == 4096);
    CHECK(refusal(config, 2048) == "");
    CHECK_THAT(refusal(config, 2049), Catch::Contains(std::string(smallest) + "=2048 "));
  }
  // Of equal ones the first in vLLM's list is named.
  CHECK(length_of({{"seq_length", 2048}, {"max_position_embeddings", 2048}}).key ==
        "max_position_embeddings");
}

TEST_CASE("model_max_length takes the place of the other lengths, larger or smaller") {
  for (const int64_t own : {4096, 131072}) {
    const Json config = {
        {"max_position_embeddings", 8192}, {"seq_length", 2048}, {"model_max_length", own}};
    CHECK(length_of(config).most == own);
    CHECK(length_of(config).key == "model_max_length");
    CHECK(refusal(config, own) == "");
    CHECK_FALSE(refusal(config, own + 1).empty());
  }
}

TEST_CASE("a factor stretches positions as far as they can be counted") {
  const auto most = [](double factor) {
    return length_of({{"max_position_embeddings", 1000},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", factor}}}})
        .most;
  };
  CHECK(most(2.5) == 2500);
  CHECK(most(1e9) == int64_t{1000} * 1000 * 1000 * 1000);
  CHECK(most(1e15) == 1000);
  CHECK(most(1e300) == 1000);
  CHECK(most(0) == 1);
}

TEST_CASE("a length beyond what YaRN reaches is refused with the length that it reaches") {
  const Json config = {
      {"max_position_embeddings", 32768},
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}};
  for (const VllmVersion version : {VllmVersion{0, 8, 0}, VllmVersion{0, 33, 0}}) {
    INFO(model::version_text(version));
    CHECK(refusal(config, 131072, version) == "");
    CHECK_THAT(refusal(config, 131073, version),
               Catch::EndsWith("Use --max-model-len 131072 at most."));
  }
}

TEST_CASE("a config that states no length has 2048 by default, and takes any") {
  const ModelLength length = length_of(Json::object());
  CHECK_FALSE(length.stated);
  CHECK(length.usual == 2048);
  CHECK(refusal(Json::object(), 1 << 20) == "");
}
