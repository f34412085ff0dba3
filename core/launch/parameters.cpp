#include "launch/parameters.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "launch/rows/rows.h"

namespace plimsoll::launch {
namespace {

std::vector<Parameter> all_parameters() {
  std::vector<Parameter> all;
  for (const auto part : {lengths, memory, numbers, ranks, device, of_vllm, items})
    for (Parameter& parameter : part()) all.push_back(std::move(parameter));
  return all;
}

/// True when a parameter with these facts changes the answers of the launch that is asked for.
bool decides(const Facts& facts, const LaunchRequest& request, bool on_cards) {
  if (facts.place == Place::cards && !on_cards) return false;
  if (facts.answers == Answers::others) return true;
  if (facts.answers == Answers::others_on_cards && on_cards) return true;
  if (request.args.max_model_len != -1) return false;
  return facts.memory == Memory::cache || (facts.memory == Memory::beside && on_cards);
}

/// Flags given whose facts are such.
std::vector<std::string> given_flags(const LaunchRequest& request, bool (*are_such)(const Facts&)) {
  std::vector<std::string> flags;
  for (const Given& given : request.given)
    if (are_such(given.parameter->facts)) flags.emplace_back(given.parameter->flag());
  return flags;
}

}  // namespace

std::string_view Parameter::flag() const {
  const size_t from = names.find("--");
  return names.substr(from, names.find(',', from) - from);
}

std::span<const Parameter> parameters() {
  static const std::vector<Parameter> all = all_parameters();
  return all;
}

void set(LaunchRequest& request, const Parameter& parameter, const std::string& text) {
  parameter.value.set(request, text);
  std::erase_if(request.given, [&](const Given& one) { return one.parameter == &parameter; });
  Given given{&parameter, std::string(parameter.flag()), text};
  if (parameter.value.form != Form::value) given.value.clear();
  if (parameter.value.form == Form::on_off && text == "false") given.flag.insert(2, "no-");
  request.given.push_back(std::move(given));
}

void change(vllm::EngineArgs& args, std::string_view flag, const std::string& text) {
  const auto parameter = std::ranges::find(parameters(), flag, &Parameter::flag);
  assert(parameter != parameters().end());
  LaunchRequest request;
  request.args = std::move(args);
  parameter->value.set(request, text);
  args = std::move(request.args);
}

std::vector<std::string> given_for_vllm(const LaunchRequest& request) {
  return given_flags(request, [](const Facts& facts) {
    return facts.engine == Engine::vllm || facts.engine == Engine::plan;
  });
}

std::vector<std::string> given_for_own_engine(const LaunchRequest& request) {
  return given_flags(request, [](const Facts& facts) { return facts.engine == Engine::plimsoll; });
}

std::vector<std::string> given_for_cards(const LaunchRequest& request) {
  return given_flags(request, [](const Facts& facts) { return facts.place == Place::cards; });
}

OrderedJson deciding_values(const LaunchRequest& request, bool on_cards) {
  OrderedJson values = OrderedJson::object();
  for (const Parameter& parameter : parameters()) {
    const Facts& facts = parameter.facts;
    const bool ours = facts.engine == Engine::both || facts.engine == Engine::plimsoll;
    if (!ours || facts.answers == Answers::as_launched) continue;
    std::string name(parameter.flag().substr(2));
    std::ranges::replace(name, '-', '_');
    values[name] = decides(facts, request, on_cards) ? parameter.value.get(request) : OrderedJson();
  }
  return values;
}

}  // namespace plimsoll::launch
