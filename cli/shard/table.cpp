#include "cli/shard/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <set>
#include <utility>

#include "base/error.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

template <typename... T>
void put(fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  fail(ExitCode::output_unwritable, "standard output cannot be written");
}

std::string source_names(const shard::ShardTensor& tensor) {
  if (tensor.weight == nullptr) return "-";
  std::vector<std::string> names;
  for (const model::Part& part : tensor.weight->parts) {
    if (names.empty() || names.back() != part.tensor) names.push_back(part.tensor);
  }
  constexpr size_t kShown = 3;
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, " "), more > 0 ? fmt::format(" (+{})", more) : "");
}

void print_text_row(const shard::ShardTensor& tensor, int64_t rank, const std::string& file) {
  put("{}\t{}\t{}\t[{}]\t{}\t{}\t{}\n", tensor.name, source_names(tensor), rank,
      fmt::join(tensor.shape, ", "), safetensors_name(tensor.dtype), tensor.bytes(), file);
}

void print_json_row(const shard::ShardTensor& tensor, int64_t rank, const std::string& file) {
  Json sources = Json::array();
  if (tensor.weight != nullptr) {
    std::set<std::string> seen;
    for (const model::Part& part : tensor.weight->parts) {
      if (seen.insert(part.tensor).second) sources.push_back(part.tensor);
    }
  }
  const Json row = {{"tensor", tensor.name},
                    {"sources", sources},
                    {"rank", rank},
                    {"shape", tensor.shape},
                    {"dtype", safetensors_name(tensor.dtype)},
                    {"bytes", tensor.bytes()},
                    {"file", file}};
  put("{}\n", row.dump());
}

}  // namespace

void print_table(const shard::Job& job, const ShardOptions& options) {
  if (!options.json) put("tensor\tsource tensors\trank\tshape\tdtype\tbytes\tfile\n");
  for (size_t stage = 0; stage < job.stages().size(); ++stage) {
    const auto& parts = job.stages()[stage].parts;
    for (size_t part = 0; part < parts.size(); ++part) {
      for (int64_t rank = 0; rank < job.layout().tensor_parallel; ++rank) {
        const std::string file = job.file_name(stage, rank, part);
        for (const shard::ShardTensor* tensor : parts[part].tensors) {
          (options.json ? print_json_row : print_text_row)(*tensor, rank, file);
        }
      }
    }
  }
  flush_output();
}

}  // namespace plimsoll::cli
