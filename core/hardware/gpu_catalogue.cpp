#include "hardware/gpu_catalogue.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/amount.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/nearest_name.h"

namespace plimsoll::hardware {
namespace {

double number_of(const std::string& text) {
  return text.empty() ? 0.0 : std::strtod(text.c_str(), nullptr);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (from <= text.size() && !text.empty()) {
    const size_t at = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  return parts;
}

Gpu parse_gpu(const std::vector<std::string>& f) {
  Gpu gpu;
  gpu.name = f[0];
  gpu.aliases = split(f[1], ';');
  gpu.vendor = f[2];
  gpu.generation = f[3];
  gpu.compute_capability = number_of(f[4]);
  gpu.memory_bytes = static_cast<int64_t>(number_of(f[5])) * kMiB;
  gpu.bandwidth = number_of(f[6]);
  gpu.bf16_tflops = number_of(f[7]);
  gpu.nvlink = number_of(f[11]);
  gpu.processors = static_cast<int64_t>(number_of(f[13]));
  gpu.cuda_bytes = static_cast<int64_t>(number_of(f[16])) * kMiB;
  return gpu;
}

std::vector<Gpu> parse_table() {
  std::vector<Gpu> gpus;
  std::string_view rest = gpu_table_text();
  bool header = true;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    constexpr size_t kColumns = 17;
    if (header || line.empty()) {
      header = false;
      continue;
    }
    const std::vector<std::string> fields = csv_fields(line);
    if (fields.size() >= kColumns) gpus.push_back(parse_gpu(fields));
  }
  return gpus;
}

/// Letters and digits in lower case; makers' words that say nothing are left out.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (const std::string_view word : {"nvidia", "geforce", "tesla", "generation"}) {
    const size_t at = key.find(word);
    if (at != std::string::npos) key.erase(at, word.size());
  }
  return key;
}

bool named(const Gpu& gpu, const std::string& key) {
  if (key_of(gpu.name) == key) return true;
  return std::any_of(gpu.aliases.begin(), gpu.aliases.end(),
                     [&](const std::string& alias) { return key_of(alias) == key; });
}

/// The words of a name ("H100", "80GB", "HBM3") in lower case, without makers' words.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(name) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (std::string key = key_of(word); !key.empty()) {
      words.push_back(std::move(key));
      word.clear();
    } else {
      word.clear();
    }
  }
  return words;
}

/// "80gb", "96GiB".
bool is_size(std::string_view word) {
  const size_t unit = word.find_first_not_of("0123456789.");
  return unit != 0 && unit != std::string_view::npos &&
         (word.substr(unit) == "gb" || word.substr(unit) == "g" || word.substr(unit) == "gib");
}

/// True for a word of a card's name, or the bare number of its size: "32" of "32gb".
bool is_word_of(std::string_view word, std::string_view known) {
  const bool bare = is_size(known) && word.find_first_not_of("0123456789") == word.npos;
  return word == known || (bare && word == known.substr(0, known.find_first_not_of("0123456789")));
}

/// "mig", or the compute slices of a MIG profile ("3g" of "3g.40gb").
bool means_slice(const std::string& word) {
  return word == "mig" || (word.size() == 2 && word[1] == 'g' &&
                           std::string_view("12347").find(word[0]) != std::string_view::npos);
}

/// True when the words mean a card of this kind. Slices and laptops' GPUs are named like the cards:
/// the words mean one where "laptop", "mig" or a slice is among them.
bool is_kind_meant(const Gpu& gpu, const std::vector<std::string>& words) {
  const bool laptop = std::ranges::find(words, "laptop") != words.end();
  return gpu.is_slice() == std::ranges::any_of(words, means_slice) &&
         (gpu.name.find("-Laptop") != std::string::npos) == laptop;
}

/// Every word of the name is a word of the card's names.
bool has_words(const Gpu& gpu, const std::vector<std::string>& words) {
  std::vector<std::string> all = words_of(gpu.name);
  for (const std::string& alias : gpu.aliases) {
    const std::vector<std::string> more = words_of(alias);
    all.insert(all.end(), more.begin(), more.end());
  }
  return std::ranges::all_of(words, [&](const std::string& word) {
    return std::ranges::any_of(all,
                               [&](const std::string& known) { return is_word_of(word, known); });
  });
}

/// True where a word says the card's memory.
bool say_size(const std::vector<std::string>& words, const Gpu& gpu) {
  const std::vector<std::string> names = words_of(gpu.name);
  return std::ranges::any_of(words, [&](const std::string& word) {
    return is_size(word) || std::ranges::any_of(names, [&](const std::string& known) {
             return is_size(known) && is_word_of(word, known);
           });
  });
}

std::vector<std::string> without_size(std::string_view name) {
  std::vector<std::string> words = words_of(name);
  std::erase_if(words, [](const std::string& word) { return is_size(word); });
  return words;
}

/// The card that is named most like `key`; empty: none is near.
std::string_view nearest_card(const std::string& key) {
  std::vector<std::string> keys;
  std::vector<std::string_view> names;
  for (const Gpu& gpu : gpu_catalogue()) {
    std::vector<std::string> all = gpu.aliases;
    all.push_back(gpu.name);
    for (const std::string& one : all) {
      keys.push_back(key_of(one));
      names.emplace_back(gpu.name);
    }
  }
  const std::vector<std::string_view> known(keys.begin(), keys.end());
  const auto nearest = std::ranges::find(known, nearest_name(key, known));
  return nearest == known.end() ? "" : names[static_cast<size_t>(nearest - known.begin())];
}

}  // namespace

bool Gpu::is_slice() const {
  return name.find("-MIG-") != std::string::npos;
}

bool Gpu::is_built_in() const {
  return name.find("-Laptop") != std::string::npos || name.starts_with("Jetson-") ||
         name.starts_with("GB10-");
}

bool Gpu::hides_memory() const {
  const auto is_geforce = [](const std::string& alias) { return alias.starts_with("GeForce"); };
  return nvlink == 0 && std::ranges::any_of(aliases, is_geforce);
}

bool Gpu::is_unified() const {
  return name.starts_with("GB10-") || name.starts_with("Jetson-") || name.starts_with("GH200-");
}

int64_t Gpu::visible_bytes() const {
  if (cuda_bytes > 0) return cuda_bytes;
  // Measured: 469 MiB on an 80 GB H100 and a 48 GB L20, 448 on a T4, 635 on a 96 GB RTX PRO 6000,
  // 355 on an RTX 3090 (452 by a newer driver); nothing of slices of an H100 and an
  // H200, and of memory that the host shares.
  if (is_slice() || is_unified()) return memory_bytes;
  int64_t kept = 469;
  if (compute_capability >= 12.0) kept = memory_bytes >= 90 * kGiB ? 635 : 470;
  if (compute_capability < 9.0 && memory_bytes < 30 * kGiB) kept = 355;
  if (generation == "Turing") kept = 448;
  return memory_bytes > kept * kMiB ? memory_bytes - kept * kMiB : memory_bytes;
}

const std::vector<Gpu>& gpu_catalogue() {
  static const std::vector<Gpu> gpus = parse_table();
  return gpus;
}

const Gpu& find_gpu(std::string_view name) {
  const std::string key = key_of(name);
  const std::vector<Gpu>& gpus = gpu_catalogue();
  for (const Gpu& gpu : gpus) {
    if (named(gpu, key)) return gpu;
  }
  const std::vector<std::string> words = words_of(name);
  if (!words.empty() && std::ranges::all_of(words, is_size) &&
      std::ranges::none_of(words, means_slice)) {
    fail(ExitCode::usage,
         "--gpu {}: a size is no card; --gpu-total-memory {} plans a card of that memory", name,
         name);
  }
  const bool is_number = std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
  const bool is_count = is_number && key.size() < 3;  // of cards, or the bare size of one
  std::vector<const Gpu*> found;
  for (const Gpu& gpu : gpus) {
    const bool meant = !words.empty() && !is_count && is_kind_meant(gpu, words);
    if (meant && has_words(gpu, words)) found.push_back(&gpu);
  }
  std::string names;
  for (const Gpu* gpu : found) names += (names.empty() ? "" : ", ") + gpu->name;
  const bool alike = std::ranges::all_of(
      found, [&](const Gpu* gpu) { return gpu->memory_bytes == found.front()->memory_bytes; });
  if (!alike) fail(ExitCode::usage, "--gpu {}: several cards have this name: {}", name, names);
  if (!found.empty()) return *found.front();  // the file lists the usual form of a card first
  fail(ExitCode::usage,
       "--gpu {}: no such card in the catalogue{}; `--gpu list` prints it, and --gpu-total-memory "
       "SIZE describes a card that is not in it{}",
       name, did_you_mean(nearest_card(key)), is_count ? "; --gpus N says how many cards" : "");
}

std::string gpu_note(std::string_view name, const Gpu& gpu) {
  const std::vector<std::string> words = words_of(name);
  const std::vector<std::string> base = without_size(gpu.name);
  if (base == words_of(gpu.name) || say_size(words, gpu)) return "";
  std::string others;
  for (const Gpu& other : gpu_catalogue()) {
    if (other.name != gpu.name && without_size(other.name) == base)
      others += (others.empty() ? "" : ", ") + other.name;
  }
  if (others.empty() && !gpu.name.starts_with("RTX-")) return "";
  return fmt::format(
      "--gpu {} has been taken for {}; there are cards of this name with other "
      "memory ({})",
      name, gpu.name, others.empty() ? "--gpu-total-memory SIZE" : others);
}

Gpu unnamed_gpu(int64_t memory_bytes) {
  Gpu gpu;
  gpu.name = "unnamed";
  gpu.memory_bytes = memory_bytes;
  return gpu;
}

}  // namespace plimsoll::hardware
