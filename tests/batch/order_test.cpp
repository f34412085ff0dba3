// The order by prefixes: the index of prompts, the order that it gives, lines read out of order,
// and the forecast of the schedule.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "batch/order/line_order.h"
#include "batch/order/order_choice.h"
#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

constexpr int64_t kBlock = 4;

/// A line with one prompt: blocks that begin with these numbers, and `rest` tokens.
BuiltRequest asks(const std::vector<int>& blocks, int rest, int64_t answer) {
  BuiltRequest request;
  TokenIds ids;
  for (const int block : blocks) ids.insert(ids.end(), {block, 1, 2, 3});
  for (int i = 0; i < rest; ++i) ids.push_back(1000 + i);
  request.prompts.push_back({.text = "", .parts = {ids}});
  engine::SamplingParams sampling;
  sampling.max_tokens = answer;
  sampling.ignore_eos = true;
  request.sampling.push_back(sampling);
  return request;
}

PrefixIndex index_of(const std::vector<BuiltRequest>& requests, size_t most_hashes = 1 << 20) {
  PrefixIndex index(kBlock, most_hashes);
  for (const BuiltRequest& request : requests) index.add_line(&request);
  return index;
}

using Numbers = std::vector<uint32_t>;

engine::ScheduleShape launch_of(int64_t blocks, int64_t sequences, int64_t tokens) {
  engine::ScheduleShape launch;
  launch.cache = {.blocks = blocks, .block_size = kBlock, .windows = {0}};
  launch.limits = {.sequences = sequences, .tokens = tokens};
  return launch;
}

Numbers as_read(const PrefixIndex& index) {
  Numbers order(index.lines());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

TEST_CASE("lines that begin alike come together, those with longer answers first") {
  // 0, 3: blocks 1 2; 1, 4: 5; 2: by itself, with the longest answer; 5: block 1 alone.
  const PrefixIndex index =
      index_of({asks({1, 2}, 1, 10), asks({5, 6}, 1, 20), asks({9}, 1, 90), asks({1, 2, 3}, 1, 30),
                asks({5, 7}, 1, 15), asks({1}, 1, 5)});
  CHECK(index.prefix_order() == Numbers{2, 3, 0, 5, 1, 4});
}

TEST_CASE("equal answers keep the order of the input, within a group and between groups") {
  const PrefixIndex index = index_of(
      {asks({7}, 1, 5), asks({3}, 1, 5), asks({7}, 1, 5), asks({8}, 1, 5), asks({3}, 1, 5)});
  CHECK(index.prefix_order() == Numbers{0, 2, 1, 4, 3});
}

TEST_CASE("lines without a prompt and prompts below a block have places too") {
  PrefixIndex index(kBlock);
  const BuiltRequest small = asks({}, 2, 3);
  const BuiltRequest whole = asks({1}, 0, 4);
  index.add_line(nullptr);
  index.add_line(&small);
  index.add_line(&whole);
  index.add_line(nullptr);
  index.add_line(&whole);
  CHECK(index.prefix_order() == Numbers{2, 4, 1, 0, 3});
  CHECK(PrefixIndex(kBlock).prefix_order().empty());
}

TEST_CASE("a prompt that another one goes on from shares its blocks") {
  const PrefixIndex index =
      index_of({asks({1, 2, 3}, 1, 1), asks({4}, 1, 1), asks({1, 2}, 0, 1), asks({1}, 3, 1)});
  CHECK(index.prefix_order() == Numbers{0, 2, 3, 1});
}

TEST_CASE("an index that is full gets coarser and keeps groups together") {
  std::vector<BuiltRequest> requests;
  std::vector<int> first(16, 1), second(16, 2);
  for (int i = 0; i < 40; ++i) requests.push_back(asks(i % 2 == 0 ? first : second, 1, 1));
  const PrefixIndex coarse = index_of(requests, 100);
  CHECK(coarse.span() > kBlock);
  CHECK(coarse.span() <= 16 * kBlock);
  CHECK(coarse.prefix_order() == index_of(requests).prefix_order());
  for (size_t line = 0; line < requests.size(); ++line) {
    const IndexedSequence& sequence = coarse.sequences(line).front();
    const IndexedSequence& alike = coarse.sequences(line % 2).front();
    for (int64_t at = 0; at < coarse.hash_count(sequence); ++at) {
      CHECK(coarse.hash(sequence, at) == coarse.hash(alike, at));
    }
  }
}

TEST_CASE("any input is ordered whole, and finds more in the cache than in its own order") {
  std::mt19937 random(7);
  uint64_t in_prefix_order = 0, in_file_order = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<BuiltRequest> requests;
    for (int i = 0; i < 60; ++i) {
      std::vector<int> blocks;
      for (auto depth = random() % 6; depth > 0; --depth) {
        blocks.push_back(static_cast<int>(random() % 2));
      }
      requests.push_back(asks(blocks, 1 + static_cast<int>(random() % 9), 1 + random() % 9));
    }
    const PrefixIndex index = index_of(requests);
    const engine::ScheduleShape launch = launch_of(40, 3, 64);
    Numbers order = index.prefix_order();
    const auto cached = [&](const Numbers& lines) {
      return forecast_schedule(index, lines, launch).cached_tokens;
    };
    in_prefix_order += cached(order);
    in_file_order += cached(as_read(index));
    std::ranges::sort(order);
    CHECK(order == as_read(index));
  }
  CHECK(in_prefix_order > in_file_order);
}

TEST_CASE("a forecast counts what a cache of its size finds in each order") {
  std::vector<BuiltRequest> requests;
  std::mt19937 random(3);
  std::vector<int> groups;
  for (int i = 0; i < 80; ++i) groups.push_back(i % 8);
  std::shuffle(groups.begin(), groups.end(), random);
  for (const int group : groups) requests.push_back(asks({group, 1, 2, 3, 4, 5, 6, 7}, 2, 2));
  const PrefixIndex index = index_of(requests);
  const engine::ScheduleShape small = launch_of(20, 1, 64);  // room for two groups
  const ScheduleForecast shuffled = forecast_schedule(index, as_read(index), small);
  const ScheduleForecast ordered = forecast_schedule(index, index.prefix_order(), small);
  CHECK(shuffled.prompt_tokens == 80 * 34);
  CHECK(ordered.prompt_tokens == 80 * 34);
  CHECK(ordered.completion_tokens == 160);
  CHECK(ordered.cached_tokens == 72 * 32);  // all but the first of each group
  CHECK(shuffled.cached_tokens < ordered.cached_tokens / 2);
  CHECK(ordered.kv_blocks_peak == 9);
  const ChosenLines chosen = choose_order(Order::automatic, index, small);
  CHECK(chosen.choice.used == Order::prefix);
  CHECK(chosen.order.size() == 80);
  // Where the cache holds all, nothing is to be gained.
  const ChosenLines roomy = choose_order(Order::automatic, index, launch_of(1000, 1, 64));
  CHECK(roomy.choice.used == Order::file);
  CHECK_THAT(roomy.choice.reason, Catch::Contains("less than 5 % more"));
  CHECK(choose_order(Order::prefix, index, small).choice.used == Order::prefix);

  // Nothing is forecast that the choice does not hang on.
  const auto decided = [&](Order asked, uint64_t shared) {
    return choose_order(asked, index, small, shared, Forecasts::deciding);
  };
  const uint64_t most = index.prompt_tokens();
  CHECK(decided(Order::automatic, most).choice.reason == chosen.choice.reason);
  const ChosenLines apart = decided(Order::automatic, most / 21);
  CHECK(apart.choice.used == Order::file);
  CHECK_FALSE(apart.choice.in_file_order);
  CHECK_THAT(apart.choice.reason, Catch::Contains("less than 5 % more"));
  const ChosenLines asked = decided(Order::prefix, 0);
  CHECK(asked.order == chosen.order);
  CHECK_FALSE(asked.choice.in_prefix_order);
}

TEST_CASE("replicas and choices take part in a forecast") {
  std::vector<BuiltRequest> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(asks({1, 2}, 1, 3));
  requests[3].sampling[0].n = 3;
  const PrefixIndex index = index_of(requests);
  engine::ScheduleShape launch = launch_of(100, 2, 16);
  CHECK(forecast_schedule(index, as_read(index), launch).completion_tokens == 14 * 3);
  launch.replicas = 3;
  launch.runs_ahead = true;
  const ScheduleForecast apart = forecast_schedule(index, as_read(index), launch);
  CHECK(apart.completion_tokens == 14 * 3);
  CHECK(apart.cached_tokens <= 9 * 8);  // each replica computes the blocks once
  CHECK(apart.cached_tokens > 0);
}

TEST_CASE("a line is read again as it was: over several files, marks and ends of lines") {
  const test::Scratch scratch;
  const std::string long_line(70'000, 'x');
  const std::vector<std::string> paths = {
      scratch.write("a", "\xEF\xBB\xBF\"one\"\r\n\n\x1e\"two\"\n" + long_line),
      scratch.write("b", ""), scratch.write("c", "\xEF\xBB\xBF\"three\"\n\"four\""),
      scratch.write("d", std::string(200'000, 'y') + "\n  \"five\"  \n")};
  files::InputFile input = files::InputFile::open(paths);
  LineReader reader(input, 100'000);
  std::vector<Line> lines;
  Line line;
  while (reader.next(line, -1) == LineReader::Got::line) lines.push_back(line);
  REQUIRE(lines.size() == 7);
  CHECK(lines[2].text == long_line);
  CHECK(lines[5].too_long);
  std::ranges::reverse(lines);
  for (const Line& expected : lines) {
    INFO(expected.number);
    const Line again = read_again(input, expected);
    CHECK(again.text == expected.text);
    CHECK(again.number == expected.number);
    CHECK(again.ordinal == expected.ordinal);
    CHECK(again.too_long == expected.too_long);
  }
}

TEST_CASE("the beginning of a line that is too long is the same when it is read again") {
  const test::Scratch scratch;
  for (const size_t length : {size_t{101}, size_t{150}, size_t{256}, size_t{300}, size_t{1} << 16,
                              (size_t{1} << 16) + 120, size_t{200'000}}) {
    INFO(length);
    const std::string text = "{\"id\":\"long\"" + std::string(length - 12, 'x');
    files::InputFile input = files::InputFile::open(scratch.write("in", "1\n" + text + "\n2\n"));
    LineReader reader(input, 100);
    Line line;
    REQUIRE(reader.next(line, -1) == LineReader::Got::line);
    REQUIRE(reader.next(line, -1) == LineReader::Got::line);
    CHECK(line.too_long);
    CHECK(line.bytes == length);
    CHECK(line.text == text.substr(0, 256));
    CHECK(read_again(input, line).text == line.text);
  }
}

TEST_CASE("a line that was changed or cut off while the run read the input ends the run") {
  const test::Scratch scratch;
  const std::string path = scratch.write("in", "\"a\"\n\"b\"\n");
  files::InputFile input = files::InputFile::open(path);
  LineIndex index(kBlock);
  SurveyOptions options;
  options.each = [&](const SurveyedLine& seen) { index.add(seen, false); };
  (void)survey_prompts(input, options);
  REQUIRE(index.order.lines.size() == 2);
  index.arrange(Numbers{1, 0});
  const Slice slice;
  OrderedReader reader(input, index.order, slice);
  Line line;
  Envelope usual = Envelope::batch;
  REQUIRE(reader.next(line, usual) == LineReader::Got::line);
  CHECK(line.text == "\"b\"");
  CHECK(usual == Envelope::plain);
  scratch.write("in", "\"c\"\n\"b\"\n");
  CHECK_THROWS_WITH(reader.next(line, usual), Catch::Contains("line 1: was changed"));
  CHECK(reader.at_end());
  OrderedReader again(input, index.order, slice);
  scratch.write("in", "\"c\"");
  CHECK_THROWS_WITH(again.next(line, usual), Catch::Contains("was cut while it was read"));
}

TEST_CASE("why an order was chosen is told with the share that the cache has in each") {
  // Two groups in turn, of which the cache has room for one: four blocks and one to go on.
  std::vector<BuiltRequest> requests;
  for (int i = 0; i < 8; ++i) {
    const int group = i % 2;
    requests.push_back(asks({group, 10 + group, 20 + group, 30 + group}, 1, 1));
  }
  const PrefixIndex index = index_of(requests);
  const engine::ScheduleShape small = launch_of(5, 1, 64);
  const ChosenLines chosen = choose_order(Order::automatic, index, small);
  const auto cached = [](const std::optional<ScheduleForecast>& forecast) {
    REQUIRE(forecast);
    return forecast->cached_tokens;
  };
  CHECK(index.prompt_tokens() == 8 * 17);
  CHECK(cached(chosen.choice.in_prefix_order) == 6 * 16);
  CHECK(cached(chosen.choice.in_file_order) == 0);
  CHECK(chosen.choice.reason ==
        "of 136 prompt tokens the prefix cache has 70.6 % in the order by prefixes, 0.0 % in the "
        "file's");
  CHECK(chosen.choice.used == Order::prefix);
  const ChosenLines few = choose_order(Order::automatic, index, small, 6, Forecasts::deciding);
  CHECK(few.choice.used == Order::file);
  CHECK_THAT(few.choice.reason,
             Catch::StartsWith("of 136 prompt tokens 4.4 % are in prefixes that lines share"));
  const ChosenLines asked = choose_order(Order::file, index, small);
  CHECK(asked.choice.used == Order::file);
  CHECK(asked.choice.asked == Order::file);
  CHECK(asked.choice.reason == "--order file");
  CHECK(choose_order(Order::prefix, index, small).choice.reason == "--order prefix");
}

TEST_CASE("a coarse hash stands for all tokens before its end, of lines before and behind") {
  // Of eight blocks each: alike in all, in the first alone, in the first two, in none.
  const std::vector<std::vector<int>> kinds = {{1, 2, 3, 4, 5, 6, 7, 8},
                                               {1, 9, 3, 4, 5, 6, 7, 8},
                                               {1, 2, 9, 4, 5, 6, 7, 8},
                                               {9, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<BuiltRequest> requests;
  for (int round = 0; round < 4; ++round) {
    for (const std::vector<int>& blocks : kinds) requests.push_back(asks(blocks, 1, 1));
  }
  const PrefixIndex index = index_of(requests, 70);  // of 128
  REQUIRE(index.span() == 2 * kBlock);
  const auto alike = [&](size_t a, size_t b) {
    const IndexedSequence &one = index.sequences(a).front(), &other = index.sequences(b).front();
    REQUIRE(index.hash_count(one) == 4);
    int64_t depth = 0;
    while (depth < 4 && index.hash(one, depth) == index.hash(other, depth)) ++depth;
    return depth;
  };
  for (const size_t round : {0, 4, 8, 12}) {
    INFO(round);
    CHECK(alike(0, round) == 4);
    CHECK(alike(0, round + 1) == 0);
    CHECK(alike(0, round + 2) == 1);
    CHECK(alike(0, round + 3) == 0);
    CHECK(alike(round + 2, 2) == 4);
  }
}
