#include "batch/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "batch/input_scan.h"
#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using files::InputFile;
using test::Scratch;

namespace {

// "number/ordinal:text" of each line; "!" marks one that is too long.
std::vector<std::string> lines_of(const std::string& text, size_t limit = 1000) {
  const Scratch scratch;
  InputFile input = InputFile::open(scratch.write("in", text));
  LineReader reader(input, limit);
  std::vector<std::string> lines;
  Line line;
  while (reader.next(line, -1) == LineReader::Got::line) {
    lines.push_back(std::to_string(line.number) + "/" + std::to_string(line.ordinal) +
                    (line.too_long ? "!" : ":" + line.text));
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines are numbered with blank ones and ordered without them") {
  CHECK(lines_of("") == Lines{});
  CHECK(lines_of("\n \t\n\r\n") == Lines{});
  CHECK(lines_of("a\nb\n") == Lines{"1/0:a", "2/1:b"});
  CHECK(lines_of("a\n\n  \nb") == Lines{"1/0:a", "4/1:b"});
  CHECK(lines_of("a\r\nb\r\n") == Lines{"1/0:a", "2/1:b"});
  CHECK(lines_of("\xEF\xBB\xBF"
                 "a\n") == Lines{"1/0:a"});
  CHECK(lines_of(std::string("a\0b\n", 4)) == Lines{std::string("1/0:a\0b", 7)});
}

TEST_CASE("the texts of a JSON sequence are lines without their separators") {
  CHECK(lines_of("\x1e{}\n\x1e\n\x1e\"b\"\n") == Lines{"1/0:{}", "3/1:\"b\""});
}

TEST_CASE("a line longer than allowed is passed over in bounded memory") {
  const std::string longest(10, 'x');
  CHECK(lines_of(longest + "\nb\n", 10) == Lines{"1/0:" + longest, "2/1:b"});
  CHECK(lines_of(longest + "x\nb\n", 10) == Lines{"1/0!", "2/1:b"});
  CHECK(lines_of(std::string(1 << 20, 'x') + "\nb", 10) == Lines{"1/0!", "2/1:b"});
  CHECK(lines_of("a\n" + std::string(1 << 20, 'x'), 10) == Lines{"1/0:a", "2/1!"});
  // Lines of these sizes end where reads do, so nothing is left of them when the input ends.
  for (const size_t size : {1 << 16, 1 << 17}) {
    CHECK(lines_of(std::string(size, 'x'), 10) == Lines{"1/0!"});
    CHECK(lines_of("a\n" + std::string(size - 2, 'x'), 10) == Lines{"1/0:a", "2/1!"});
    CHECK(lines_of(std::string(size - 1, 'x') + "\n", 10) == Lines{"1/0!"});
  }
}

TEST_CASE("long lines are handed out whole among short ones") {
  const std::string a(size_t{3} << 20, 'a'), b((size_t{1} << 20) + 7, 'b');
  const size_t limit = size_t{4} << 20;
  CHECK(lines_of("x\n" + a + "\r\ny\n\n" + b + "\n" + a, limit) ==
        Lines{"1/0:x", "2/1:" + a, "3/2:y", "5/3:" + b, "6/4:" + a});
  CHECK(lines_of("\xEF\xBB\xBF" + b + "\n" + std::string(b.size(), ' ') + "\nz", limit) ==
        Lines{"1/0:" + b, "3/1:z"});
}

TEST_CASE("what is not text is named with its cure") {
  for (const auto& [magic, word] :
       std::vector<std::pair<std::string, std::string>>{{"\xfd"
                                                         "7zXZ",
                                                         "xzcat"},
                                                        {"PK\x03\x04", "zip"},
                                                        {"PAR1\x15\x04", "duckdb"},
                                                        {"\xff\xfe{", "UTF-16"}}) {
    CHECK_THROWS_WITH(lines_of(magic), Catch::Contains(word));
  }
}

TEST_CASE("a pipe is read as it comes") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  InputFile input = InputFile::open("/dev/fd/" + std::to_string(ends[0]));
  LineReader reader(input, 100);
  Line line;
  CHECK(reader.next(line, 0) == LineReader::Got::nothing_yet);
  REQUIRE(write(ends[1], "one\ntw", 6) == 6);
  CHECK(reader.next(line, 0) == LineReader::Got::line);
  CHECK(line.text == "one");
  CHECK(reader.next(line, 0) == LineReader::Got::nothing_yet);
  REQUIRE(write(ends[1], "o", 1) == 1);
  close(ends[1]);
  close(ends[0]);
  CHECK(reader.next(line, -1) == LineReader::Got::line);
  CHECK(line.text == "two");
  CHECK(reader.next(line, -1) == LineReader::Got::end);
}

TEST_CASE("JSON over several lines is refused from a pipe too") {
  for (const auto& [text, cure] : {std::pair<std::string, std::string>{"[\n", "jq -c '.[]'"},
                                   {"{\n  \"a\": 1", "jq -c ."},
                                   {"{\"a\": 1,\n  \"b\": 2}\n", "jq -c ."}}) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    InputFile input = InputFile::open("/dev/fd/" + std::to_string(ends[0]));
    LineReader reader(input, 100);
    REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    Line line;
    CHECK_THROWS_WITH(reader.next(line, 0), Catch::Contains(cure));
    close(ends[0]);
    close(ends[1]);
  }
}

TEST_CASE("a first object that is torn off is one line") {
  for (const char* behind : {"", "{\"prompt\": \"b\"}\n"}) {
    const Scratch scratch;
    InputFile input = InputFile::open(scratch.write("in", std::string("{\"prompt\":\n") + behind));
    LineReader reader(input, 100);
    Line line;
    CHECK(reader.next(line, -1) == LineReader::Got::line);
    CHECK(line.text == "{\"prompt\":");
  }
}

TEST_CASE("a file may grow while it is read, but not shrink") {
  const Scratch scratch;
  const std::string path = scratch.write("in", "a\nb\n");
  {
    InputFile input = InputFile::open(path);
    scratch.write("in", "a\nb\nc\n");
    CHECK(scan_input(input, {.max_line_bytes = 100}).lines == 3);
  }
  InputFile input = InputFile::open(path);
  scratch.write("in", "a\n");
  CHECK_THROWS_WITH(scan_input(input, {.max_line_bytes = 100}),
                    Catch::Contains("2 bytes came of 6"));
}

TEST_CASE("an input that cannot be one is refused by name") {
  const Scratch scratch;
  CHECK_THROWS_WITH(InputFile::open(scratch.path("none")), Catch::Contains("No such file"));
  CHECK_THROWS_WITH(InputFile::open(scratch.path("")), Catch::Contains("folder"));
}

TEST_CASE("what is another format is refused before anything is made of its lines") {
  const Scratch scratch;
  struct Row {
    const char* text;
    const char* cure;  // null: lines of ours, or what fails line by line
  };
  for (const Row& row :
       {Row{"[{\"prompt\":\"a\"}]\n", "jq -c '.[]'"}, Row{"{\n\"prompt\": \"a\"\n}\n", "jq -c ."},
        Row{"[\n{\"prompt\":\"a\"},\n{\"prompt\":\"b\"}\n]\n", "jq -c '.[]'"},
        Row{"{\"id\": \"a\",\n \"prompt\": \"b\"}\n{\"prompt\":\"c\"}\n", "jq -c ."},
        Row{"{\"prompt\":\"a\nb\"}\n", nullptr}, Row{"[1]\n{\"prompt\":\"a\"}\n", nullptr},
        Row{"{\"custom_id\":\"a\",\"params\":{}}\n", "body: (.params"},
        Row{"a,b\nc,d\n", "mlr --icsv"}, Row{"a\tb, c\nc\td\n", "mlr --itsv"},
        Row{"a,b\nc\n", "jq -R"}, Row{"hello\nyou\n", "jq -R"}, Row{"hello\n", nullptr},
        Row{"", nullptr}, Row{"{broken\nhello\n", nullptr}, Row{"hello\n\"a\"\n", nullptr},
        Row{"hello\n[1]x\n", nullptr}, Row{"{\"prompt\":\"a\"}\nhello\n", nullptr}}) {
    INFO(row.text);
    files::InputFile input = files::InputFile::open(scratch.write("in", row.text));
    if (row.cure == nullptr) {
      CHECK_NOTHROW(refuse_other_formats(input, 1 << 20));
    } else {
      CHECK_THROWS_WITH(refuse_other_formats(input, 1 << 20), Catch::Contains(row.cure));
    }
  }
}

TEST_CASE("a byte that is not UTF-8 is found wherever it stands in a word") {
  for (size_t at = 0; at < 20; ++at) {
    std::string text(20, 'x');
    text[at] = '\xFF';
    CHECK(first_invalid_utf8(text) == at);
    CHECK_FALSE(first_invalid_utf8(text.replace(at, 1, "\xC3\xA9")));
  }
}

TEST_CASE("the first byte that is not UTF-8") {
  struct Row {
    std::string text;
    std::optional<size_t> at;
  };
  const Row rows[] = {
      {"", {}},
      {"plain", {}},
      {"h\xC3\xA9", {}},
      {"\xE2\x82\xAC", {}},
      {"\xF0\x9F\x98\x80", {}},
      {"\xEF\xBF\xBF", {}},
      {"\xC2\x80", {}},  // first and last of each length
      {"\xDF\xBF", {}},
      {"\xE0\xA0\x80", {}},
      {"\xED\x9F\xBF", {}},
      {"\xF0\x90\x80\x80", {}},
      {"\xF4\x8F\xBF\xBF", {}},
      {"\xC1\xBF", 0},
      {"a\x80", 1},
      {"\xC0\x80", 0},          // overlong
      {"\xE0\x80\x80", 0},      // overlong
      {"\xED\xA0\x80", 0},      // surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"ab\xE2\x82", 2},        // cut
      {"\xF0\x9F\x98", 0},      // cut
      {"a\xC3(", 1},
      {"\xFF", 0},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(first_invalid_utf8(row.text) == row.at);
  }
}

TEST_CASE("parts are contiguous, even and whole") {
  for (const uint64_t lines : {0u, 1u, 7u, 8u, 100u}) {
    for (const uint64_t parts : {1u, 3u, 8u, 11u}) {
      uint64_t next = 0;
      for (uint64_t i = 0; i < parts; ++i) {
        const Slice slice = part_of(lines, i, parts);
        CHECK(slice.first == next);
        CHECK(slice.count <= lines / parts + 1);
        next += slice.count;
      }
      CHECK(next == lines);
    }
  }
}

TEST_CASE("lines are read as requests while no more is read than is asked for") {
  const Scratch scratch;
  const std::string text = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n";  // read at once
  const std::string file = scratch.write("in", text);
  for (const auto& [bytes, checked] :
       {std::pair<size_t, uint64_t>{text.size() - 1, 0}, {text.size(), 2}}) {
    INFO(bytes);
    InputFile input = InputFile::open(file);
    const InputScan scan = scan_input(input, {.max_line_bytes = 1000, .checked_bytes = bytes});
    CHECK(scan.lines == 2);
    CHECK(scan.checked == checked);
  }
}

TEST_CASE("strict runs refuse an id that occurs twice, naming both lines") {
  const Scratch scratch;
  const auto check = [&](const std::string& text) {
    InputFile input = InputFile::open(scratch.write("in", text));
    scan_input(input, {.max_line_bytes = 1000, .duplicate_ids = DuplicateIds::refuse});
  };
  CHECK_NOTHROW(check("\"a\"\n{\"id\":\"x\",\"prompt\":\"a\"}\n{broken\n"));
  CHECK_THROWS_WITH(check("{\"id\":\"x\",\"prompt\":1}\n\n{\"id\":\"x\",\"prompt\":\"a\"}\n"),
                    Catch::Contains("line 3") && Catch::Contains("line 1"));
  CHECK_THROWS_WITH(check("{\"id\":\"2\",\"prompt\":\"a\"}\n\"b\"\n"), Catch::Contains("line 2"));
}

TEST_CASE("lines of blanks of any kind are no lines, and blanks around a line stay") {
  CHECK(lines_of("\f\n\v\n \t\r\f\v \na\n") == Lines{"4/0:a"});
  CHECK(lines_of(" a\t\n\f\"b\"\n") == Lines{"1/0: a\t", "2/1:\f\"b\""});
}
