// The parameters of a launch, each declared once: its flag, what it may be, and what follows where
// it is another. Flags, the record of a run, notes about flags without effect and the changes that
// advice proposes are read off this table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "launch/request.h"

namespace plimsoll::launch {

/// Whose launch heeds it, and whose command line has the flag.
enum class Engine : uint8_t {
  both,      // where our engine lacks it, it refuses it by name
  plimsoll,  // ours alone
  vllm,      // vLLM's alone
  plan,      // vLLM's plan heeds it, and no command line but plan's has it
};
/// Where our engine heeds it.
enum class Place : uint8_t { anywhere, cards };
/// When our engine answers otherwise where it is another.
enum class Answers : uint8_t {
  same,
  others,
  others_on_cards,  // there it changes the order in which numbers are summed
  as_launched,      // the record of a run has what it came to (cli/run/job.cpp)
};
/// What memory moves with it.
enum class Memory : uint8_t {
  same,
  cache,   // what the KV cache holds
  beside,  // what else is taken, which on a card leaves less for the KV cache
};

/// No parameter is declared without all four.
struct Facts {
  Engine engine;
  Place place;
  Answers answers;
  Memory memory;
};

/// How a parameter's text is read into a request. Throws std::invalid_argument saying what was
/// expected. Of a switch: "true" or "false".
using Setter = std::function<void(LaunchRequest&, const std::string&)>;
/// Its value, however it was spelled.
using Getter = std::function<OrderedJson(const LaunchRequest&)>;

enum class Form : uint8_t {
  value,
  on_off,  // --NAME and --no-NAME
  on,      // --NAME alone
};

struct Value {
  Form form;
  Setter set;
  Getter get;  // null of what our engine does not heed
};

struct Parameter {
  std::string_view group;  // heading of --help
  std::string_view names;  // "-O,--compilation-config": the first long one names it elsewhere
  std::string_view type;   // of the value in --help; of a switch none
  std::string_view help;
  Facts facts;
  Value value;

  /// "--compilation-config".
  [[nodiscard]] std::string_view flag() const;
};

std::span<const Parameter> parameters();

/// Reads a value into the request and notes it as given. Throws std::invalid_argument.
void set(LaunchRequest& request, const Parameter& parameter, const std::string& text);

/// The same of a flag, into arguments that stand alone: what advice tries. `flag` must be one.
void change(vllm::EngineArgs& args, std::string_view flag, const std::string& text);

/// Flags given, by their first long names: those that our engine does not heed, and those that it
/// heeds on cards alone.
std::vector<std::string> given_for_vllm(const LaunchRequest& request);
std::vector<std::string> given_for_cards(const LaunchRequest& request);

/// What of the request decides which answers a run gives, by parameter: null of one that decides
/// nothing there. With --max-model-len auto the context, and so all that moves memory, decides.
OrderedJson deciding_values(const LaunchRequest& request, bool on_cards);

}  // namespace plimsoll::launch
