#include "checkpoint/gguf/ollama.h"

#include <algorithm>

#include "base/config_view.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/gguf/header.h"

namespace plimsoll::checkpoint::gguf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestManifest = size_t{1} << 20;
constexpr std::string_view kWeights = "application/vnd.ollama.image.model";

/// "sha256:ab12..." as the name of a blob's file; empty for anything else.
std::string blob_name(const ConfigView& layer) {
  const std::string digest = layer.text({"digest"}, "");
  constexpr std::string_view kKind = "sha256:";
  if (!digest.starts_with(kKind) || !is_plain_name(digest.substr(kKind.size()))) return "";
  return "sha256-" + digest.substr(kKind.size());
}

}  // namespace

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                  c == '.';
         });
}

fs::path find_ollama(const std::string& name, const fs::path& store) {
  const size_t colon = name.rfind(':');
  const std::string tag = colon == std::string::npos ? "latest" : name.substr(colon + 1);
  std::string path = name.substr(0, colon);
  if (path.find('/') == std::string::npos) path = "library/" + path;
  const size_t slash = path.find('/');
  if (!is_plain_name(path.substr(0, slash)) || !is_plain_name(path.substr(slash + 1)) ||
      !is_plain_name(tag)) {
    fail(ExitCode::checkpoint_unusable,
         "ollama:{}: no name of an Ollama model; expected NAME, NAME:TAG or ORG/NAME:TAG",
         shown_name(name));
  }
  const fs::path manifest = store / "manifests/registry.ollama.ai" / path / tag;
  std::error_code error;
  if (store.empty() || !fs::is_regular_file(manifest, error)) {
    fail(ExitCode::checkpoint_unusable,
         "ollama:{} is not in Ollama's store ({}; OLLAMA_MODELS names another); get it with: "
         "ollama pull {}",
         name, store.string(), name);
  }
  const Json json = read_json_file(manifest, kLargestManifest);
  const auto layers = json.is_object() ? json.find("layers") : json.end();
  if (json.is_object() && layers != json.end() && layers->is_array()) {
    for (const Json& entry : *layers) {
      if (!entry.is_object()) continue;
      const ConfigView layer(entry, manifest.string());
      if (layer.text({"mediaType"}, "") != kWeights) continue;
      fs::path blob = store / "blobs" / blob_name(layer);
      if (blob.filename().empty() || !fs::is_regular_file(blob, error)) {
        fail(ExitCode::checkpoint_unusable,
             "{}: its weights, {}, are missing; get them with: ollama pull {}", manifest.string(),
             blob.string(), name);
      }
      return blob;
    }
  }
  fail(ExitCode::checkpoint_unusable, "{}: names no weights in GGUF's format", manifest.string());
}

}  // namespace plimsoll::checkpoint::gguf
