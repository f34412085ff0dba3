// Rooms use those below them alone: what a file includes says so.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// Each room stands behind all that it may include. The plan of our own engine is a room above the
/// other plan, which knows nothing of it.
const std::vector<std::string> kRooms = {
    "base",      "hardware",      "files",   "model", "quantization", "checkpoint",
    "memory",    "text",          "grammar", "image", "backend",      "engine",
    "processes", "batch",         "shard",   "vllm",  "engines",      "launch",
    "plan",      "plan/plimsoll", "kernels", "cli"};

/// Place of a file's room in the list, or -1.
long place_of(const std::string& path) {
  const std::string room =
      path.starts_with("plan/plimsoll/") ? "plan/plimsoll" : path.substr(0, path.find('/'));
  const auto at = std::ranges::find(kRooms, room);
  return at == kRooms.end() ? -1 : at - kRooms.begin();
}

/// Folders of the room of kernels, each behind all that it may include.
const std::vector<std::string> kKernelFolders = {"runtime",   "rows",  "products", "attention",
                                                 "recurrent", "ranks", "backend"};

/// The place of a file's folder there, or -1.
long folder_of(const std::string& path) {
  const std::string room = "kernels/";
  if (!path.starts_with(room)) return -1;
  const std::string folder = path.substr(room.size(), path.find('/', room.size()) - room.size());
  const auto at = std::ranges::find(kKernelFolders, folder);
  return at == kKernelFolders.end() ? -1 : at - kKernelFolders.begin();
}

std::vector<std::string> includes_of(const fs::path& file) {
  std::vector<std::string> found;
  std::ifstream text(file);
  const std::string mark = "#include \"";
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(mark)) continue;
    found.push_back(line.substr(mark.size(), line.rfind('"') - mark.size()));
  }
  return found;
}

}  // namespace

TEST_CASE("no room includes one above it") {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  std::map<std::string, int> files;
  for (const char* top : {"core", "kernels", "cli"}) {
    const fs::path base = top == std::string("core") ? root / top : root;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string ending = entry.path().extension();
      if (ending != ".cpp" && ending != ".h" && ending != ".cu" && ending != ".cuh") continue;
      const std::string own = fs::relative(entry.path(), base).string();
      const long place = place_of(own);
      INFO(own);
      REQUIRE(place >= 0);
      ++files[kRooms[static_cast<size_t>(place)]];
      for (const std::string& include : includes_of(entry.path())) {
        INFO(include);
        CHECK(place_of(include) <= place);
      }
    }
  }
  CHECK(files.size() == kRooms.size());
}

TEST_CASE("no folder of kernels includes one above it") {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  for (const auto& entry : fs::recursive_directory_iterator(root / "kernels")) {
    if (!entry.is_regular_file() || entry.path().extension() == ".md") continue;
    const std::string own = fs::relative(entry.path(), root).string();
    INFO(own);
    const long place = folder_of(own);
    REQUIRE(place >= 0);
    for (const std::string& include : includes_of(entry.path())) {
      INFO(include);
      CHECK(folder_of(include) <= place);
    }
  }
}
