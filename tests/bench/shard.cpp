// `plimsoll shard` beside `cp -r` of the same checkpoint on the same disk, its anonymous memory,
// and what is left when it is killed at random moments.
//
//   build/tests/bench/shard FOLDER [PAIRS [KILLS [LAYERS [SECONDS]]]]
//
// FOLDER lies on the disk in question and needs three times 4 GiB (33 layers; 2 are 0.5 GB). After
// SECONDS no further process is killed. The source is read once before
// each measurement, so that both start with it in the page cache (as far as it fits).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "files/digest.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using plimsoll::Json;

constexpr int64_t kHidden = 2048, kIntermediate = 8192, kKv = 512, kVocabulary = 32768;
constexpr const char* kTensorParallel = "2";

// ---- the checkpoint ----

std::vector<std::pair<std::string, std::vector<int64_t>>> tensors(int layers) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> all = {
      {"model.embed_tokens.weight", {kVocabulary, kHidden}},
      {"lm_head.weight", {kVocabulary, kHidden}},
      {"model.norm.weight", {kHidden}}};
  for (int i = 0; i < layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    all.insert(all.end(), {{layer + "self_attn.q_proj.weight", {kHidden, kHidden}},
                           {layer + "self_attn.k_proj.weight", {kKv, kHidden}},
                           {layer + "self_attn.v_proj.weight", {kKv, kHidden}},
                           {layer + "self_attn.o_proj.weight", {kHidden, kHidden}},
                           {layer + "mlp.gate_proj.weight", {kIntermediate, kHidden}},
                           {layer + "mlp.up_proj.weight", {kIntermediate, kHidden}},
                           {layer + "mlp.down_proj.weight", {kHidden, kIntermediate}},
                           {layer + "input_layernorm.weight", {kHidden}},
                           {layer + "post_attention_layernorm.weight", {kHidden}}});
  }
  return all;
}

void make_checkpoint(const fs::path& folder, int layers) {
  if (fs::exists(folder / "config.json")) return;
  fs::create_directories(folder);
  Json header = Json::object();
  int64_t bytes = 0;
  for (const auto& [name, shape] : tensors(layers)) {
    const int64_t begin = bytes;
    bytes += 2 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
    header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  std::mt19937_64 random(7);
  std::vector<uint64_t> block(size_t{1} << 17);
  for (int64_t left = bytes; left > 0; left -= static_cast<int64_t>(block.size() * 8)) {
    std::ranges::generate(block, random);
    const auto now = std::min<int64_t>(left, static_cast<int64_t>(block.size() * 8));
    file.write(reinterpret_cast<const char*>(block.data()), now);
  }
  file.close();
  std::ofstream(folder / "config.json") << Json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", kHidden},
      {"intermediate_size", kIntermediate},
      {"num_hidden_layers", layers},
      {"num_attention_heads", 32},
      {"num_key_value_heads", 8},
      {"vocab_size", kVocabulary},
      {"torch_dtype", "bfloat16"}}.dump();
}

uint64_t bytes_in(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

void read_through(const fs::path& folder) {
  std::vector<char> block(size_t{1} << 22);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    while (file.read(block.data(), static_cast<std::streamsize>(block.size()))) {
    }
  }
}

// ---- processes ----

pid_t start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  execvp(arguments[0], arguments.data());
  _exit(127);
}

int64_t anonymous_bytes(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    constexpr size_t kName = std::string_view("RssAnon:").size();
    if (line.starts_with("RssAnon:")) return std::atoll(line.c_str() + kName) * 1024;
  }
  return 0;
}

struct Finished {
  bool well = false;
  double seconds = 0;
  double processor = 0;   // seconds, user and system
  int64_t anonymous = 0;  // peak of samples
};

Finished wait_for(pid_t child, Clock::time_point begin) {
  Finished finished;
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    finished.anonymous = std::max(finished.anonymous, anonymous_bytes(child));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  finished.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
    finished.processor +=
        static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  }
  finished.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return finished;
}

class Bench {
 public:
  Bench(fs::path program, fs::path folder, int layers)
      : program_(std::move(program)),
        model_(folder / "model"),
        out_(folder / "out"),
        copy_(folder / "copy") {
    make_checkpoint(model_, layers);
    clear();
  }

  void pairs(int count) {
    fmt::print("source {:.2f} GB in the page cache\n", giga(bytes_in(model_)));
    std::vector<double> ratios;
    for (int i = 0; i < count; ++i) {
      Measured ours;
      if (i % 2 == 0) ours = shard();
      const auto [plain, durable] = copy();
      if (i % 2 != 0) ours = shard();
      ratios.push_back(ours.rate / durable.rate);
      fmt::print(
          "shard {:.2f} GB/s on the disk ({:.1f} s of processors); cp -r {:.2f} GB/s, on the disk "
          "(sync -f) {:.2f} GB/s ({:.1f} s); ratio on the disk {:.2f}, to plain cp {:.2f}; "
          "anonymous peak {:.0f} MiB\n",
          ours.rate, ours.processor, plain.rate, durable.rate, durable.processor, ratios.back(),
          ours.rate / plain.rate, static_cast<double>(anonymous_) / (1 << 20));
      std::fflush(stdout);
      clear();
    }
    if (ratios.empty()) return;
    std::ranges::sort(ratios);
    fmt::print("median ratio on the disk {:.2f}\n", ratios[ratios.size() / 2]);
  }

  bool kills(int count, double seconds) {
    const auto begin = Clock::now();
    std::mt19937_64 random(11);
    const double whole = giga(bytes_in(model_)) / shard().rate;
    const std::map<std::string, std::string> expected = digests();
    clear();
    int rerun = 0, done = 0;
    for (; done < count; ++done) {
      if (Clock::now() - begin > std::chrono::duration<double>(seconds)) break;
      const pid_t child = start_shard();
      const double moment = whole * static_cast<double>(random() % 1000) / 1000;
      std::this_thread::sleep_for(std::chrono::duration<double>(moment));
      kill(child, SIGKILL);
      wait_for(child, Clock::now());
      if (!are_right(expected)) return false;
      if (done % 10 == 9) fmt::print(stderr, "{} kills\n", done + 1);
      // Now and then the same command goes on to the end.
      if (random() % 8 != 0) continue;
      if (!wait_for(start_shard(), Clock::now()).well || digests() != expected) return false;
      ++rerun;
      clear();
    }
    if (!wait_for(start_shard(), Clock::now()).well || digests() != expected) return false;
    fmt::print("{} kills, {} runs to the end after some: no wrong file, equal results\n", done,
               rerun + 1);
    clear();
    return true;
  }

 private:
  static double giga(uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

  pid_t start_shard() const {
    return start({program_, "shard", model_, "-o", out_, "-tp", kTensorParallel, "--max-file-size",
                  "512MiB", "--quiet"});
  }

  struct Measured {
    double rate = 0;       // GB/s of what was written
    double processor = 0;  // seconds
  };

  Measured shard() {
    read_through(model_);
    const Finished run = wait_for(start_shard(), Clock::now());
    if (!run.well) throw std::runtime_error("plimsoll shard failed");
    anonymous_ = std::max(anonymous_, run.anonymous);
    return {giga(bytes_in(out_)) / run.seconds, run.processor};
  }

  std::pair<Measured, Measured> copy() {
    read_through(model_);
    const auto begin = Clock::now();
    const Finished run = wait_for(start({"cp", "-r", model_, copy_}), begin);
    const Finished synced = wait_for(start({"sync", "-f", copy_}), begin);
    if (!run.well || !synced.well) throw std::runtime_error("cp failed");
    const double size = giga(bytes_in(copy_));
    return {{size / run.seconds, run.processor},
            {size / synced.seconds, run.processor + synced.processor}};
  }

  void clear() {
    fs::remove_all(out_);
    fs::remove_all(copy_);
    wait_for(start({"sync", "-f", model_}), Clock::now());
  }

  static std::string digest(const fs::path& file) {
    plimsoll::files::Digest digest;
    std::ifstream in(file, std::ios::binary);
    std::vector<char> buffer(size_t{8} << 20);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
      digest.add(buffer.data(), static_cast<size_t>(in.gcount()));
    }
    return digest.hex();
  }

  [[nodiscard]] std::map<std::string, std::string> digests() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(out_)) {
      all[entry.path().filename()] = digest(entry.path());
    }
    return all;
  }

  // Files under final names are right; a file that was looked at before is known by its inode.
  bool are_right(const std::map<std::string, std::string>& expected) {
    if (!fs::exists(out_)) return true;
    for (const auto& entry : fs::directory_iterator(out_)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".plimsoll-tmp") || name.ends_with(".json.part")) continue;
      const auto time = fs::last_write_time(entry.path()).time_since_epoch().count();
      if (seen_[name] == time) continue;
      if (!expected.contains(name) || digest(entry.path()) != expected.at(name)) {
        fmt::print("wrong file under a final name: {}\n", name);
        return false;
      }
      seen_[name] = time;
    }
    return true;
  }

  fs::path program_, model_, out_, copy_;
  int64_t anonymous_ = 0;
  std::map<std::string, fs::file_time_type::duration::rep> seen_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: shard FOLDER [PAIRS [KILLS [LAYERS [SECONDS]]]]\n");
    return 2;
  }
  const auto number = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  Bench bench(fs::canonical(argv[0]).parent_path() / "../../plimsoll", argv[1], number(4, 33));
  bench.pairs(number(2, 5));
  const int kills = number(3, 0);
  return kills == 0 || bench.kills(kills, number(5, 3600)) ? 0 : 1;
}
