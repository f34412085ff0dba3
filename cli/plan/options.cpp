#include "cli/plan/options.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <regex>
#include <stdexcept>

#include "base/json.h"
#include "base/split_text.h"
#include "base/units.h"
#include "cli/borrowed_flags.h"
#include "cli/launch_flags.h"
#include "cli/value_flag.h"
#include "engines/engine.h"
#include "model/vllm/version.h"

namespace plimsoll::cli {
namespace {

Choices<std::string> engine_names() {
  Choices<std::string> names = {{"plimsoll", "plimsoll"}, {"vllm", "vllm"}};
  for (const engines::Engine& engine : engines::engines()) {
    names.emplace_back(engine.name, engine.name);
    for (const std::string_view alias : engine.aliases) names.emplace_back(alias, engine.name);
  }
  names.emplace_back("all", "all");
  return names;
}

/// Sizes of one card or several in GiB, as the engines' logs print them: "23.1GiB:22.8GiB".
std::vector<double> read_gib(const std::string& text) {
  std::vector<double> sizes;
  for (const std::string_view piece : split_text(text, ":")) {
    const std::string size(piece);
    const size_t unit = size.find_first_not_of("0123456789.");
    if (std::ranges::count(size, '.') > 1) throw std::invalid_argument("expected one point");
    // A number of GiB as it stands: a size in bytes would round it.
    sizes.push_back(unit == std::string::npos || size.substr(unit) == "GiB"
                        ? std::stod(size)
                        : static_cast<double>(parse_size(size, 1, 1)) / 0x1p30);
  }
  return sizes;
}

engines::FreeMemory read_free_memory(const std::string& text) {
  engines::FreeMemory free;
  for (const std::string_view piece : split_text(text, ",")) {
    const std::string part(piece);
    const size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string size = equals < part.size() ? part.substr(equals + 1) : "";
    constexpr double kMost = 1 << 20;
    std::vector<double> sizes;
    try {
      sizes = read_gib(size);
    } catch (const std::exception&) {
    }
    const double gib = sizes.empty() ? 0 : std::ranges::min(sizes);
    if ((name != "before" && name != "after") || !(gib > 0) || gib > kMost)
      throw std::invalid_argument(
          "expected before=SIZE,after=SIZE, such as before=78.4GiB,after=63.1GiB");
    (name == "before" ? free.before : free.after) = gib;
    if (name == "after") free.each = std::move(sizes);
  }
  if (free.after == 0) throw std::invalid_argument("expected after=SIZE too");
  if (free.before > 0 && free.before < free.after)
    throw std::invalid_argument(
        "before is less than after, and loading takes memory: are they swapped?");
  return free;
}

/// Totals of cards: of several the least counts, but for engines that ask for each.
void read_totals(const std::string& text, PlanOptions& o) {
  o.gpu_totals.clear();
  for (const std::string_view size : split_text(text, ":"))
    o.gpu_totals.push_back(static_cast<int64_t>(parse_memory(std::string(size))));
  o.gpu_total_memory = std::ranges::min(o.gpu_totals);
}

bool is_number(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// A card's name, and how many of it where that is said as people write it: "8xH100", "H100 x 8",
/// "H100:8". Other names stay as they are.
void read_card(const std::string& text, PlanOptions& o) {
  static const std::regex before(R"(\s*(\d{1,4})\s*[xX*]\s*([^\s,][^,]*))");
  static const std::regex behind(R"(([^\s,][^,]*?(?:\d[xX*]|\s+[xX*]\s*|\s*:\s*))(\d{1,4})\s*)");
  std::smatch match;
  o.gpu = text;
  if (text.size() > 100) return;
  bool leads = std::regex_match(text, match, before);
  constexpr int64_t kLeastName = 100;  // "4090x2" names a card of that number
  if (leads && is_number(match[2]) && parse_count(match[1]) >= kLeastName) leads = false;
  if (!leads && !std::regex_match(text, match, behind)) return;
  o.gpu = match[leads ? 2 : 1];
  if (!leads) o.gpu.erase(o.gpu.find_last_not_of(" xX*:") + 1);
  o.gpus = parse_count(match[leads ? 1 : 2]);
  if (*o.gpus < 1) throw std::invalid_argument("expected at least 1 card");
}

void read_cards_at_hand(const std::string& text, PlanOptions& o) {
  const std::optional<int64_t> by_card = o.gpus;  // --gpu is read first
  o.gpus = text == "auto" ? 0 : parse_count(text);
  if (text != "auto" && *o.gpus < 1) throw std::invalid_argument("expected at least 1, or auto");
  if (by_card && *by_card != *o.gpus)
    throw std::invalid_argument(
        fmt::format("--gpu names {} cards already; give one of the two", *by_card));
}

void declare_answer(CLI::App& command, PlanOptions& o) {
  choice_flag(command, "--engine", o.engine, engine_names(), "whose launch (default plimsoll)");
  value_flag(command, "--engine-version", "X.Y[.Z]", "the engine's version (default: the newest)",
             [&o](const std::string& text) { o.engine_version = text; });
  value_flag(command, "--engine-args", "JSON", "fields of the engine's Python config",
             [&o](const std::string& text) {
               o.engine_fields = parse_json<Json>(text);
               if (!o.engine_fields.is_object()) throw std::invalid_argument("expected an object");
             });
  text_flag(command, "--gguf-type", o.gguf_type, "NAME",
            "llamacpp: plans the GGUF file that llama-quantize makes of MODEL, such as Q4_K_M");
  value_flag(command, "--free-memory", "before=SIZE,after=SIZE",
             "free memory of a card before loading, and when the cache is sized",
             [&o](const std::string& text) { o.free_memory = read_free_memory(text); });
  value_flag(
      command, "--vllm-version", "X.Y[.Z]",
      "vLLM's version (default " + model::version_text(model::kNewestRelease) + ")",
      [&o](const std::string& text) {
        constexpr std::string_view kOpen[] = {"plimsoll", "vllm", "all"};
        if (std::ranges::find(kOpen, o.engine) == std::end(kOpen))
          throw std::invalid_argument("--engine " + o.engine +
                                      " is another engine: give --engine-version");
        const std::string& other = o.engine_version;
        if (!other.empty() && !(vllm::parse_version(other) == vllm::parse_version(text)))
          throw std::invalid_argument("--engine-version says " + other + "; give one of the two");
        if (o.engine != "all") o.engine = "vllm";
        o.launch.args.version = vllm::parse_version(text);
        o.launch.args.development_build = model::is_development_build(text) ? text : "";
      });
  value_flag(command, "--gpu", "NAME|auto|smallest|list",
             "card by a loose name, 8xH100: eight of it; list prints them",
             [&o](const std::string& text) { read_card(text, o); });
  value_flag(command, "--gpus", "N|auto", "cards at hand; auto: as few as it takes",
             [&o](const std::string& text) { read_cards_at_hand(text, o); });
  value_flag(command, "--gpu-total-memory", "SIZE", "the card's total as nvidia-smi shows it",
             [&o](const std::string& text) { read_totals(text, o); });
  choice_flag(
      command, "--format", o.format,
      {{"text", PlanFormat::text},
       {"json", PlanFormat::json},
       {"html", PlanFormat::html},
       {"args", PlanFormat::args},
       {"serve", PlanFormat::serve},
       {"log", PlanFormat::log},
       {"ids", PlanFormat::text}},  // run's
      "what to print (default text); args: the launch's flags, to paste; serve: the whole line; "
      "log: what the engine will log");
  memory_flag(command, "--available-kv-memory", o.launch.args.available_kv,
              "stands in for the KV budget left after weights");
  text_flag(command, "--explain", o.explain, "PART", "the formula of a part with its numbers");
  command.add_flag("--advise", o.advise, "what would save memory, also when it fits");
  text_flag(command, "--tokens-per-second,--rate", o.rate, "N|REPORT",
            "measured, by hand or in a report of run: gives hours for -i");
  text_flag(command, "--reorder", o.reorder, "FILE",
            "writes the lines of -i in the order by prefixes, for any engine");
  text_flag(command, "--check", o.check, "FILE", "a report of run: was the plan exceeded?");
  command.add_option("--diff", o.diff, "what two plans, printed with --format json, differ in")
      ->type_name("FILE FILE");
}

/// Flags of vLLM's server, which people paste.
void declare_unmoved(CLI::App& command, PlanOptions& o) {
  const auto note = [&o](const std::string& name) {
    return [&o, name](const std::string&) { o.ignored.push_back(name); };
  };
  for (const char* name : {"--host", "--port", "--api-key", "--tool-call-parser",
                           "--reasoning-parser", "--swap-space"}) {
    value_flag(command, name, "X", "moves no device memory", note(name));
  }
  for (const char* name : {"--trust-remote-code", "--disable-log-requests", "--disable-log-stats",
                           "--enable-auto-tool-choice"}) {
    command.add_flag_callback(
        name, [&o, name] { o.ignored.emplace_back(name); }, "moves no device memory");
  }
}

/// Flags of run that decide which prompts plan makes of the lines of -i.
constexpr const char* kAboutPrompts[] = {"--tokenizer",
                                         "--chat-template",
                                         "--chat-template-kwargs",
                                         "--max-tokens",
                                         "--part",
                                         "--skip",
                                         "--limit",
                                         "--order",
                                         "--max-line-bytes",
                                         "--strict",
                                         "--long-prompt",
                                         "--split-overlap",
                                         "--allowed-local-media-path",
                                         "--max-image-pixels",
                                         "--min-tokens",
                                         "-n",
                                         "--logprobs",
                                         "--generation-config"};

}  // namespace

void declare_plan_alone(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Subject and answer");
  declare_answer(command, options);
  command.option_defaults()->group("Accepted, but moves no device memory");
  declare_unmoved(command, options);
}

void declare_plan_flags(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Subject and answer");
  command
      .add_option("-m,--model,MODEL", options.model,
                  "folder with config.json, a config.json, a GGUF file, or a hub id in the cache")
      ->type_name("DIR|FILE|ID")
      ->take_last();
  declare_inputs(command, options.run, "prompts: lengths, faults, need for cache")
      ->each([&options](const std::string&) { options.has_prompts = true; });
  declare_plan_alone(command, options);
  declare_launch_flags(command, options.launch);
  const auto flags = std::make_shared<CLI::App>();
  declare_run_alone(*flags, options.run);
  borrow_flags(command, {flags, nullptr}, {}, options.ignored);
}

std::vector<std::string> ignored_flags(const PlanOptions& options) {
  std::vector<std::string> names = options.ignored;
  if (!options.has_prompts) return names;
  std::erase_if(names, [&](const std::string& name) {
    if (name == "--overwrite" && !options.reorder.empty()) return true;
    return std::ranges::find(kAboutPrompts, name) != std::end(kAboutPrompts);
  });
  return names;
}

}  // namespace plimsoll::cli
