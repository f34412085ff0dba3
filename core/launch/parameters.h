// The parameters of a launch, each declared once: its flag, its values, and what follows where it
// changes. Flags, the record of a run, notes about flags without effect and the changes that advice
// proposes are read off this table.
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

/// Which engine's launch uses a parameter, and whose command line has its flag.
enum class Engine : uint8_t {
  both,      // our engine refuses it by name where it lacks it
  plimsoll,  // ours alone
  vllm,      // vLLM's alone
  plan,      // vLLM's plan uses it, and only plan's command line has it
};
/// Launches in which our engine uses a parameter: all, or those on cards.
enum class Place : uint8_t { anywhere, cards };
/// Whether our engine's answers change with a parameter.
enum class Answers : uint8_t {
  same,
  others,
  others_on_cards,  // on cards, where it changes the order of sums
  as_launched,      // by the resolved value, which the record of a run has (cli/run/job.cpp)
};
/// Memory that a parameter changes.
enum class Memory : uint8_t {
  same,
  cache,   // the contents of the KV cache
  beside,  // other memory, which on a card leaves less for the KV cache
};

/// Facts about a parameter; none is declared without all four.
struct Facts {
  Engine engine;
  Place place;
  Answers answers;
  Memory memory;
};

/// Reads a parameter's text into a request. Throws std::invalid_argument saying what was expected.
/// The text of a switch is "true" or "false".
using Setter = std::function<void(LaunchRequest&, const std::string&)>;
/// Returns a parameter's value, however it was spelled.
using Getter = std::function<OrderedJson(const LaunchRequest&)>;

enum class Form : uint8_t {
  value,
  on_off,  // --NAME and --no-NAME
  on,      // --NAME alone
};

struct Value {
  Form form;
  Setter set;
  Getter get;  // null where our engine does not use it
};

struct Parameter {
  std::string_view group;  // heading of --help
  std::string_view names;  // "-O,--compilation-config": the first long one names it elsewhere
  std::string_view type;   // of the value in --help; a switch has none
  std::string_view help;
  Facts facts;
  Value value;

  /// "--compilation-config".
  [[nodiscard]] std::string_view flag() const;
};

std::span<const Parameter> parameters();

/// Reads a value into the request and notes it as given. Throws std::invalid_argument.
void set(LaunchRequest& request, const Parameter& parameter, const std::string& text);

/// Reads a flag's value into arguments that stand alone, for changes that advice tries. `flag` must
/// be one.
void change(vllm::EngineArgs& args, std::string_view flag, const std::string& text);

/// Flags given, by their first long names: flags that our engine does not use, and flags that it
/// uses on cards alone.
std::vector<std::string> given_for_vllm(const LaunchRequest& request);
std::vector<std::string> given_for_cards(const LaunchRequest& request);
/// Flags that were given and that vLLM does not have.
std::vector<std::string> given_for_own_engine(const LaunchRequest& request);

/// Values that decide which answers a run gives, by parameter; null for a parameter that decides
/// nothing. With --max-model-len auto the context decides, and so do all parameters that change
/// memory.
OrderedJson deciding_values(const LaunchRequest& request, bool on_cards);

}  // namespace plimsoll::launch
