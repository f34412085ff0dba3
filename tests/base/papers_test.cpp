// The papers name only sources that exist: links, files, classes and their members.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = PLIMSOLL_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kEndings = {".cpp", ".h", ".cu", ".cuh", ".in"};
  return kEndings.contains(path.extension().string());
}

/// All files below the folders of sources, from the root on.
const std::vector<fs::path>& files() {
  static const std::vector<fs::path> all = [] {
    std::vector<fs::path> found;
    for (const char* folder :
         {"cli", "cmake", "core", "kernels", "man", "mpi", "samples", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
        found.push_back(fs::relative(entry.path(), kRoot));
    }
    return found;
  }();
  return all;
}

/// The papers: HACKING.md, README.md, and the README.md of each room.
std::vector<fs::path> papers() {
  std::vector<fs::path> found = {"HACKING.md", "README.md"};
  for (const fs::path& path : files()) {
    const std::string top = path.begin()->string();
    if (path.filename() == "README.md" && (top == "core" || top == "kernels" || top == "tests"))
      found.push_back(path);
  }
  return found;
}

/// Every word of the sources.
const std::set<std::string>& words() {
  static const std::set<std::string> all = [] {
    std::set<std::string> found;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    for (const fs::path& path : files()) {
      if (!is_source(path)) continue;
      const std::string text = read(kRoot / path);
      for (auto at = text.begin(); at != text.end();) {
        const auto begin = std::find_if(at, text.end(), is_part);
        at = std::find_if_not(begin, text.end(), is_part);
        if (begin != at) found.emplace(begin, at);
      }
    }
    return found;
  }();
  return all;
}

/// Whether a source that declares the class, struct or namespace `owner` has the word `member`.
bool is_member(const std::string& owner, const std::string& member) {
  const std::regex declared("(?:class|struct|namespace [\\w:]*|::)\\s*\\b" + owner +
                            "\\b[\\w\\s:<>,]*\\{");
  const std::regex word("\\b" + member + "\\b");
  return std::ranges::any_of(files(), [&](const fs::path& path) {
    if (!is_source(path)) return false;
    const std::string text = read(kRoot / path);
    return text.find(member) != std::string::npos && text.find(owner) != std::string::npos &&
           std::regex_search(text, word) && std::regex_search(text, declared);
  });
}

/// Texts in a paper that match `expression`'s first group, outside its blocks of commands and
/// output.
std::vector<std::string> matches(const fs::path& paper, const std::regex& expression) {
  std::ifstream file(kRoot / paper);
  std::vector<std::string> found;
  bool fenced = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    if (fenced) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), expression), end; at != end; ++at)
      found.push_back((*at)[1]);
  }
  return found;
}

/// Whether a file or folder of this name, perhaps without the folders before it, is there.
bool is_there(const std::string& name) {
  if (fs::exists(kRoot / name)) return true;
  const std::string ending = "/" + (name.ends_with('/') ? name.substr(0, name.size() - 1) : name);
  return std::ranges::any_of(
      files(), [&](const fs::path& path) { return ("/" + path.string()).ends_with(ending); });
}

}  // namespace

TEST_CASE("links of the papers lead somewhere") {
  for (const fs::path& paper : papers()) {
    INFO(paper);
    for (const std::string& link : matches(paper, std::regex("\\]\\(([^)#:]+)\\)"))) {
      INFO(link);
      CHECK(fs::exists(kRoot / paper.parent_path() / link));
    }
  }
}

TEST_CASE("files, classes and members that the papers name are there") {
  const std::regex file("`([\\w./-]+(?:/|\\.(?:cpp|h|cu|cuh|inc\\.h|csv|jsonl)))`");
  const std::regex type("`((?:\\w+::)*(?:[A-Z]\\w*[a-z]\\w*[A-Z]\\w*|\\w+::\\w+))(?:\\(\\))?`");
  size_t checked = 0;
  for (const fs::path& paper : papers()) {
    if (paper == "README.md" || paper.string().starts_with("tests/data/")) continue;
    INFO(paper);
    for (const std::string& name : matches(paper, file)) {
      INFO(name);
      CHECK(is_there(name));
      ++checked;
    }
    for (const std::string& name : matches(paper, type)) {
      std::string rest = name;
      std::replace(rest.begin(), rest.end(), ':', ' ');
      std::istringstream parts(rest);
      std::string owner;
      for (std::string part; parts >> part; ++checked) {
        INFO(name);
        CHECK(words().contains(part));
        if (!owner.empty() && owner != "std") CHECK(is_member(owner, part));
        owner = part;
      }
    }
  }
  CHECK(checked > 200);
}

TEST_CASE(
    "README.md is at most 120 columns wide, HACKING.md at most 250 lines and 2,500 words long") {
  std::istringstream readme(read(kRoot / "README.md"));
  for (std::string line; std::getline(readme, line);) {
    INFO(line);
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
    CHECK(line.size() - static_cast<size_t>(std::ranges::count_if(line, continues)) <= 120);
  }
  const std::string hacking = read(kRoot / "HACKING.md");
  std::istringstream words_of(hacking);
  CHECK(std::distance(std::istream_iterator<std::string>(words_of), {}) <= 2500);
  CHECK(std::ranges::count(hacking, '\n') <= 250);
}
