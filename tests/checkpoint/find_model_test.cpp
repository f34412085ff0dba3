// MODEL as a folder or as an id in the local Hugging Face cache.
#include <catch2/catch.hpp>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/crafted.h"
#include "checkpoint/find_model.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using checkpoint::find_model;
using plimsoll::testing::TempFolder;

namespace {

constexpr const char* kRepository = "models--org--name";

TempFolder& with_snapshot(TempFolder& cache, const std::string& commit) {
  cache.write("blobs/config", "{}");
  const fs::path snapshot = cache.path / kRepository / "snapshots" / commit;
  fs::create_directories(snapshot);
  fs::create_symlink(cache.path / "blobs/config", snapshot / "config.json");
  return cache;
}

/// What `find` returns, or the message of its error.
template <typename F>
std::string text_of(const F& find) {
  try {
    return find();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
}

std::string refusal(const std::string& model, const fs::path& cache) {
  return text_of([&] { return "found " + find_model(model, {.hub = cache}).string(); });
}

}  // namespace

TEST_CASE("a folder is itself, whatever the cache holds") {
  const TempFolder folder;
  CHECK(find_model(folder.path.string(), {}) == folder.path);
}

TEST_CASE("ids are looked up by branch, tag, commit and pull request") {
  TempFolder cache;
  with_snapshot(with_snapshot(cache, "aaa111"), "bbb222");
  const fs::path refs = fs::path(kRepository) / "refs";
  cache.write(refs / "main", "aaa111\n");
  cache.write(refs / "v1.0", "bbb222");
  cache.write(refs / "refs/pr/7", "bbb222");
  const fs::path snapshots = cache.path / kRepository / "snapshots";
  const checkpoint::ModelStores hub{.hub = cache.path};
  CHECK(find_model("org/name", hub) == snapshots / "aaa111");
  CHECK(find_model("org/name@main", hub) == snapshots / "aaa111");
  CHECK(find_model("org/name@v1.0", hub) == snapshots / "bbb222");
  CHECK(find_model("org/name@bbb222", hub) == snapshots / "bbb222");
  CHECK(find_model("org/name@refs/pr/7", hub) == snapshots / "bbb222");
  CHECK_THAT(refusal("org/name@v2.0", cache.path),
             Catch::Contains("hf download org/name --revision v2.0"));
}

TEST_CASE("without refs the only snapshot is taken") {
  TempFolder cache;
  with_snapshot(cache, "aaa111");
  CHECK(find_model("org/name", {.hub = cache.path}).filename() == "aaa111");
  with_snapshot(cache, "bbb222");
  CHECK_THAT(refusal("org/name", cache.path), Catch::Contains("hf download org/name"));
}

TEST_CASE("misses say what to do") {
  struct Row {
    const char* model;
    const char* said;
  };
  const Row row = GENERATE(values<Row>({
      {"org/other", "get it with: hf download org/other"},
      {"gpt2", "gpt2 is neither a folder nor in the Hugging Face cache"},
      {"/no/such/folder", "no such folder, and not a hub id"},
      {"./missing", "no such folder"},
      {"../missing", "no such folder"},
      {"~/missing", "no such folder"},
      {"a/b/c", "no such folder"},
      {"org/name@../../x", "no such folder"},
      {"org/name@", "no such folder"},
      {"org/..", "no such folder"},
      {"", "no such folder"},
      {"org/na--me", "no such folder"},
      {"https://huggingface.co/org/name/tree/main", "give its id, org/name"},
      {"hf.co/org/name", "give its id, org/name"},
      {"http://hf.co/org/name", "give its id, org/name"},
      {"https://www.huggingface.co/org/name", "give its id, org/name"},
      {"org/other/", "give its id, org/other"},
      {"models/llama/x/", "not a hub id like org/name"},
      {"https://modelscope.cn/models/org/name", "not a hub id like org/name"},
      {"models/m.gguf", "models/m.gguf: no such file"},
      {"m/config.json", "m/config.json: no such file"},
      {"./m.safetensors", "./m.safetensors: no such file"},
      {"Org/NAME", "which holds org/name: give it that name"},
  }));
  INFO(row.model);
  TempFolder cache;
  with_snapshot(cache, "aaa111");
  CHECK_THAT(refusal(row.model, cache.path), Catch::Contains(row.said));
}

TEST_CASE("a misspelt folder or file beside others is guessed") {
  TempFolder cache;
  with_snapshot(cache, "aaa111");
  TempFolder own;
  fs::create_directory(own.path / "llama-8b");
  for (const char* name : {"config.json", "model.gguf", "notes.txt"})
    std::ofstream(own.path / name) << "{}";
  const auto said = [&](const std::string& name) {
    return refusal((own.path / name).string(), cache.path);
  };
  const auto ends = [&](const std::string& name) {
    return Catch::EndsWith("; did you mean " + (own.path / name).string() + "?");
  };
  CHECK_THAT(said("confg.json"), ends("config.json"));
  CHECK_THAT(said("config.jsn"), ends("config.json"));
  CHECK_THAT(said("modle.gguf"), ends("model.gguf"));
  CHECK_THAT(said("llama8b"), ends("llama-8b"));
  for (const char* name : {"notes.tx", "mistral-7b", "far/config.jsn"})
    CHECK_THAT(said(name), !Catch::Contains("did you mean"));

  // Beside the program, where the name may be a hub id too.
  const fs::path before = fs::current_path();
  fs::current_path(own.path);
  const std::string miss = refusal("config.jsn", cache.path);
  const std::string cached = refusal("org/nam", cache.path);
  fs::current_path(before);
  CHECK_THAT(miss, Catch::EndsWith("; did you mean config.json? Else get it with: hf download "
                                   "config.jsn"));
  CHECK_THAT(cached, Catch::EndsWith("; get it with: hf download org/nam"));
}

TEST_CASE("the id of a cached model may end as a file's name") {
  TempFolder cache;
  cache.write("models--org--x.gguf/snapshots/aaa111/config.json", "{}");
  CHECK(find_model("org/x.gguf", {.hub = cache.path}).filename() == "aaa111");
  CHECK_THAT(refusal("org/y.gguf", cache.path), Catch::Contains("no such file"));
}

TEST_CASE("a part of an id has up to 96 letters, digits, and marks within") {
  TempFolder cache;
  with_snapshot(cache, "aaa111");
  const std::string longest(96, 'a');
  for (const std::string& model :
       {longest + "/" + longest, std::string("a_b/c.d-e"), std::string("org/name@v1_0")}) {
    INFO(model);
    CHECK_THAT(refusal(model, cache.path), Catch::Contains("get it with: hf download "));
  }
  for (const std::string& model :
       {longest + "a/b", "b/" + longest + "a", std::string("-a/b"), std::string(".a/b"),
        std::string("a/b..c"), std::string("a/b c"), std::string("org/name@a//b")}) {
    INFO(model);
    CHECK_THAT(refusal(model, cache.path), Catch::Contains("not a hub id like org/name"));
  }
  CHECK_THAT(text_of([&] {
               return find_model("org/other@v2", {.hub = cache.path}, "config.json").string();
             }),
             Catch::EndsWith("get it with: hf download org/other config.json --revision v2"));
}

TEST_CASE("broken caches are named") {
  TempFolder cache;
  with_snapshot(cache, "aaa111");
  cache.write(fs::path(kRepository) / "refs/main", "../../../etc");
  CHECK_THAT(refusal("org/name", cache.path), Catch::Contains("names no commit"));
  cache.write(fs::path(kRepository) / "refs/main", "aaa111");
  fs::remove(cache.path / "blobs/config");
  CHECK_THAT(refusal("org/name", cache.path),
             Catch::Contains("without its config.json") && Catch::Contains("hf download org/name"));
  CHECK_THAT(refusal("org/name", ""), Catch::Contains("set HF_HOME or HF_HUB_CACHE"));
  const fs::path file = cache.write("model.gguf", "GGUF");
  CHECK(find_model(file.string(), {}) == file);
  CHECK(find_model(cache.write("one/m.gguf", "GGUF").parent_path().string(), {}) ==
        cache.path / "one/m.gguf");
  fs::create_symlink("loop", cache.path / "loop");
  CHECK_THAT(refusal((cache.path / "loop").string(), cache.path), Catch::Contains("form a loop"));
}

TEST_CASE("models of Ollama's store are looked up by name, tag and manifest") {
  const TempFolder store;
  const auto manifest = [](const std::string& digest) {
    return R"({"layers":[5,{"mediaType":"application/vnd.ollama.image.license","digest":"x"},)"
           R"({"mediaType":"application/vnd.ollama.image.model","digest":")" +
           digest + "\"}]}";
  };
  const std::string names = "manifests/registry.ollama.ai/";
  store.write("blobs/sha256-ab12", "GGUF");
  store.write("blobs/sha256-cd34", "GGUF");
  store.write("secret", "GGUF");
  store.write("blobs/sha256-a/file", "");  // a folder through which a name leads out
  store.write(names + "library/tiny/latest", manifest("sha256:ab12"));
  store.write(names + "library/tiny/1b", manifest("sha256:cd34"));
  store.write(names + "org/tiny/latest", manifest("sha256:cd34"));
  store.write(names + "library/gone/latest", manifest("sha256:ef56"));
  store.write(names + "library/out/latest", manifest("sha256:a/../../secret"));
  store.write(names + "library/other/latest", manifest("md5:ab12"));
  store.write(names + "library/none/latest", R"({"layers":[]})");
  store.write(names + "library/list/latest", "[]");
  const auto found = [&](const std::string& name) {
    return text_of([&] {
      return find_model("ollama:" + name, {.hub = {}, .ollama = store.path}).filename().string();
    });
  };
  CHECK(found("tiny") == "sha256-ab12");
  CHECK(found("tiny:latest") == "sha256-ab12");
  CHECK(found("tiny:1b") == "sha256-cd34");
  CHECK(found("org/tiny") == "sha256-cd34");
  struct Row {
    std::string name, words;
  };
  for (const Row& row :
       {Row{"tiny:2b", "get it with: ollama pull tiny:2b"}, Row{"gone", "ollama pull gone"},
        Row{"out", "are missing"}, Row{"other", "are missing"}, Row{"none", "names no weights"},
        Row{"list", "names no weights"}, Row{"../tiny", "no name of an Ollama model"},
        Row{"org/../tiny", "no name of an Ollama model"},
        Row{"tiny:.x", "no name of an Ollama model"}, Row{"", "no name of an Ollama model"},
        Row{std::string(129, 'a'), "no name of an Ollama model"}}) {
    INFO(row.name);
    CHECK_THAT(found(row.name), Catch::Contains(row.words));
  }
  CHECK_THROWS_WITH(find_model("ollama:tiny", {}), Catch::Contains("is not in Ollama's store"));
}

TEST_CASE("models of LM Studio's store are looked up by publisher, model and file") {
  const TempFolder home;
  const fs::path store = ".lmstudio/models";
  home.write(store / "one/model/m-Q4.gguf", "GGUF");
  home.write(store / "two/model/m-Q4.gguf", "GGUF");
  home.write(store / "two/model/m-Q8.gguf", "GGUF");
  home.write(store / "mlx/model/config.json", "{}");
  home.write(store / "none/model/readme", "");
  home.write(store / "secret.gguf", "GGUF");
  const auto found = [&](const std::string& name) {
    return text_of([&] {
      const fs::path path = find_model("lmstudio:" + name, {.hub = {}, .home = home.path});
      return path.lexically_relative(home.path / store).string();
    });
  };
  CHECK(found("one/model") == "one/model/m-Q4.gguf");
  CHECK(found("two/model/m-Q8.gguf") == "two/model/m-Q8.gguf");
  CHECK(found("mlx/model") == "mlx/model");
  CHECK_THAT(found("two/model"), Catch::Contains("m-Q8.gguf"));
  CHECK_THAT(found("none/model"), Catch::Contains("neither a GGUF file nor a config.json"));
  CHECK_THAT(found("one/other"), Catch::Contains("get it with: lms get one/other"));
  CHECK_THAT(found("one/model/b.gguf"), Catch::EndsWith("get it with: lms get one/model"));
  for (const char* name : {"", "one", "one/..", "../secret.gguf", "/etc/passwd", "one/model/",
                           "one/model/x/y", "mlx/model/config.json", "one/mo del"}) {
    INFO(name);
    CHECK_THAT(found(name), Catch::Contains("no name of an LM Studio model"));
  }
  CHECK_THROWS_WITH(find_model("lmstudio:one/model", {}), Catch::Contains("is not among"));
}
