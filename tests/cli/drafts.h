// Draft models of the sample model, for runs that speculate.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "checkpoint/crafted.h"
#include "cli/program.h"

namespace plimsoll::test {

/// The sample model's folder with changed values in its config, and the tensors of its first layers
/// alone.
inline void write_draft(const Scratch& scratch, const std::string& name, const Json& changes) {
  REQUIRE(shell(scratch, "cp -r $MODEL " + name + " && chmod -R u+w " + name).status == 0);
  Json config = parse_json<Json>(scratch.read(name + "/config.json"));
  config.update(changes);
  scratch.write(name + "/config.json", config.dump());
  const std::string file = scratch.read(name + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  Json header = Json::object();
  std::string data;
  const Json tensors = parse_json<Json>(file.substr(8, length));
  for (const auto& [tensor, entry] : tensors.items()) {
    const size_t at = tensor.find(".layers.");
    if (!entry.contains("data_offsets")) continue;
    if (at != std::string::npos &&
        std::stoi(tensor.substr(at + 8)) >= config["num_hidden_layers"].get<int>())
      continue;
    const auto first = entry["data_offsets"][0].get<size_t>();
    const size_t bytes = entry["data_offsets"][1].get<size_t>() - first;
    header[tensor] = entry;
    header[tensor]["data_offsets"] = {data.size(), data.size() + bytes};
    data += file.substr(8 + length + first, bytes);
  }
  scratch.write(name + "/model.safetensors", testing::safetensors_bytes(header.dump(), data));
}

/// The flag that asks for proposals of this model.
inline std::string drafting(const std::string& model) {
  return R"( --speculative-config '{"method":"draft_model","model":")" + model +
         R"(","num_speculative_tokens":3}')";
}

}  // namespace plimsoll::test
