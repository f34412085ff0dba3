#include "batch/files/manifest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_bytes.h"
#include "files/names.h"
#include "files/output_file.h"

namespace plimsoll::batch {
namespace {

constexpr const char* kTool = "plimsoll run";
constexpr size_t kLargestManifest = size_t{1} << 30;
constexpr size_t kTextsAtOnce = size_t{1} << 16;

constexpr std::array<std::pair<RunState, const char*>, 4> kStates{{
    {RunState::running, "running"},
    {RunState::publishing, "publishing"},
    {RunState::complete, "complete"},
    {RunState::partial, "partial"},
}};

RunState state_from(const std::string& name) {
  for (const auto& [state, known] : kStates) {
    if (name == known) return state;
  }
  throw std::invalid_argument("state");
}

uint64_t count_at(const OrderedJson& json, const char* key) {
  const OrderedJson& value = json.at(key);
  // One beyond 64 bits is a float.
  if (!value.is_number_unsigned()) throw std::invalid_argument(key);
  return value.get<uint64_t>();
}

const char* name_of(RunState state) {
  return kStates[static_cast<size_t>(state)].second;
}

std::string shown(const OrderedJson& value) {
  std::string text = value.is_null() ? "none" : with_texts(value, text_or_bytes).dump();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

files::PagedArray<uint64_t> read_texts(const std::string& path, uint64_t lines) {
  files::PagedArray<uint64_t> texts(files::folder_of(path));
  std::ifstream file(path, std::ios::binary);
  std::vector<uint64_t> some(kTextsAtOnce);
  while (texts.size() < lines) {
    const size_t count = std::min<uint64_t>(some.size(), lines - texts.size());
    const auto bytes = static_cast<std::streamsize>(count * sizeof(uint64_t));
    if (!file.read(reinterpret_cast<char*>(some.data()), bytes)) {
      fail(ExitCode::foreign_output, "{}: does not have the {} lines of its run", path, lines);
    }
    for (size_t i = 0; i < count; ++i) texts.push_back(some[i]);
  }
  return texts;
}

}  // namespace

std::string manifest_path(const std::string& output) {
  return output + ".run.json";
}

std::optional<Manifest> read_manifest(const std::string& path) {
  if (!files::exists(path)) return std::nullopt;
  try {
    const auto stored = parse_json<OrderedJson>(read_text_file(path, kLargestManifest));
    const OrderedJson json = with_texts(stored, text_of_bytes);
    if (json.at("tool") != kTool) throw std::invalid_argument("tool");
    Manifest manifest;
    manifest.job = json.at("job");
    manifest.notes = json.at("notes");
    manifest.state = state_from(json.at("state").get<std::string>());
    manifest.replaces = json.at("replaces").get<bool>();
    manifest.output_inode = count_at(json, "output_inode");
    manifest.errors_inode = count_at(json, "errors_inode");
    manifest.ok = count_at(json, "ok");
    manifest.failed = count_at(json, "failed");
    manifest.missing = count_at(json, "missing");
    // Records of older versions lack these; an older version shows in the job.
    manifest.output_bytes = json.value("output_bytes", uint64_t{0});
    manifest.errors_bytes = json.value("errors_bytes", uint64_t{0});
    manifest.report = json.value("report", OrderedJson());
    if (json.contains("texts") && json["texts"].is_number())
      manifest.texts = count_at(json, "texts");
    manifest.coming_texts = json.value("coming_texts", uint64_t{0});
    if (!manifest.job.is_object() || !manifest.notes.is_object()) {
      throw std::invalid_argument("job");
    }
    return manifest;
  } catch (const std::exception&) {  // of JSON, its types, or thrown above
    fail(ExitCode::foreign_output,
         "{}: is no record of plimsoll run; move it away, or start anew with --overwrite", path);
  }
}

void write_manifest(const std::string& path, const Manifest& manifest) {
  const OrderedJson json = {{"tool", kTool},
                            {"state", name_of(manifest.state)},
                            {"job", manifest.job},
                            {"notes", manifest.notes},
                            {"replaces", manifest.replaces},
                            {"output_inode", manifest.output_inode},
                            {"errors_inode", manifest.errors_inode},
                            {"ok", manifest.ok},
                            {"failed", manifest.failed},
                            {"missing", manifest.missing},
                            {"output_bytes", manifest.output_bytes},
                            {"errors_bytes", manifest.errors_bytes},
                            {"report", manifest.report},
                            {"texts", manifest.texts},
                            {"coming_texts", manifest.coming_texts}};
  files::write_file(path, with_texts(json, text_or_bytes).dump(1) + "\n");
}

// ---- texts ----

std::string texts_path(const std::string& output) {
  return output + ".run.texts";
}

std::string coming_texts_path(const std::string& output) {
  return texts_path(output) + ".part";
}

void check_texts_names(const std::string& output) {
  const auto check = [](const std::string& path, int access_mode, const char* cure) {
    if (!files::exists(path)) return;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) {
      fail(ExitCode::output_unwritable,
           "{}: is {}, and a run keeps the digests of its lines in a file of this name; move it "
           "away",
           path, files::is_folder(path) ? "a folder" : "no regular file");
    }
    if (access(path.c_str(), access_mode) != 0) {
      fail(ExitCode::output_unwritable, "{}: cannot be opened: {}; {}", path, files::reason(),
           cure);
    }
  };
  check(texts_path(output), R_OK, "give yourself the right to read it (chmod u+r)");
  check(coming_texts_path(output), R_OK | W_OK,
        "it is the rest of an earlier life of the run; remove it");
}

bool has_texts(const std::string& path, uint64_t lines) {
  std::error_code error;
  return lines > 0 && std::filesystem::file_size(path, error) == lines * sizeof(uint64_t);
}

std::optional<files::PagedArray<uint64_t>> texts_of_run(const std::string& output,
                                                        const Manifest& manifest) {
  const std::string path = texts_path(output);
  const uint64_t lines = manifest.texts;
  if (has_texts(path, lines)) return read_texts(path, lines);
  if (files::exists(path)) {
    std::error_code ignored;
    fail(ExitCode::foreign_output,
         "{}: is not the file that this run left there ({} bytes, not {}); {}", path,
         std::filesystem::file_size(path, ignored), lines * sizeof(uint64_t),
         lines > 0 ? "put that back, or start anew with --overwrite" : "move it away");
  }
  const bool has_ended =
      manifest.state == RunState::complete || manifest.state == RunState::partial;
  if (lines == 0 || has_ended) return std::nullopt;
  // The input may be a corrected one.
  fail(ExitCode::foreign_output,
       "{}: does not have the {} lines of the run that began, so that corrected lines cannot be "
       "told from others; put it back, or start anew with --overwrite",
       path, lines);
}

void write_texts(const std::string& path, const files::PagedArray<uint64_t>& texts) {
  files::OutputFile file = files::OutputFile::open_owned(path);
  file.truncate(0);
  std::vector<uint64_t> some;
  for (uint64_t line = 0; line < texts.size(); ++line) {
    some.push_back(texts[line]);
    if (some.size() < kTextsAtOnce && line + 1 < texts.size()) continue;
    file.append({reinterpret_cast<const char*>(some.data()), some.size() * sizeof(uint64_t)});
    some.clear();
  }
  file.sync();
  file.close();
}

// ---- jobs ----

OrderedJson lines_json(const Slice& slice, std::optional<uint64_t> all_lines) {
  OrderedJson lines = {{"first", slice.first}, {"count", nullptr}, {"of", nullptr}};
  if (slice.count != UINT64_MAX) lines["count"] = slice.count;
  if (all_lines) lines["of"] = *all_lines;
  return lines;
}

Slice slice_of(const OrderedJson& job) {
  const OrderedJson& lines = job.at("lines");
  Slice slice{.first = lines.at("first").get<uint64_t>()};
  if (!lines.at("count").is_null()) slice.count = lines.at("count").get<uint64_t>();
  if (lines.value("of", OrderedJson()).is_null()) return slice;
  const auto all = lines.at("of").get<uint64_t>();
  slice.count = std::min(slice.count, all - std::min(all, slice.first));
  return slice;
}

bool is_part(const OrderedJson& job) {
  try {
    const Slice slice = slice_of(job);
    const OrderedJson all = job.at("lines").value("of", OrderedJson());
    return slice.first > 0 || (all.is_number() && slice.count < all.get<uint64_t>());
  } catch (const Json::exception&) {
    return false;
  }
}

std::string difference(const OrderedJson& then, const OrderedJson& now) {
  if (then == now) return "";
  if (!then.is_object() || !now.is_object()) {
    return fmt::format("{} then, {} now", shown(then), shown(now));
  }
  const auto value = [](const OrderedJson& from, const std::string& key) {
    const auto found = from.find(key);
    return found == from.end() ? OrderedJson() : *found;
  };
  for (const OrderedJson* side : {&now, &then}) {
    for (const auto& [key, unused] : side->items()) {
      const std::string inner = difference(value(then, key), value(now, key));
      if (inner.empty() && then.contains(key) == now.contains(key)) continue;
      if (inner.empty()) return key + ": another version of plimsoll began it";
      const bool nested = value(then, key).is_object() && value(now, key).is_object();
      return fmt::format("{}{}{}", key, nested ? "." : ": ", inner);
    }
  }
  return "";  // the same keys in another order
}

}  // namespace plimsoll::batch
