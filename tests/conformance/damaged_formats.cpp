// Quantized checkpoints that are damaged, through the command line: every tensor of every format,
// in every way that a file can be wrong. All are refused by the tensor's name.
#include <limits>

#include "cli/program.h"
#include "conformance/drawn_checkpoints.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Outcome;
using test::shell;

namespace {

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

Tensors read(const fs::path& folder) {
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  Tensors tensors;
  for (const auto& [name, entry] : checkpoint.tensors())
    tensors[name] = {
        entry.dtype, entry.shape, {reinterpret_cast<const char*>(entry.data), entry.bytes}};
  return tensors;
}

void write(const fs::path& folder, const Tensors& tensors) {
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : tensors)
    writer.add(name, tensor.dtype, tensor.shape, tensor.bytes.data(), tensor.bytes.size());
  std::ofstream(folder / "model.safetensors", std::ios::binary) << writer.bytes();
}

/// Ends of the names of tensors beside a matrix, or, of "_...", beside a stack of matrices.
constexpr std::array kEndings = {
    "_blocks",
    "_scales",
    ".qweight",
    ".qzeros",
    ".scales",
    ".g_idx",
    ".weight_packed",
    ".weight_scale",
    ".weight_scale_inv",
    ".weight_zero_point",
    ".weight_g_idx",
    ".weight_shape",
    ".weight_global_scale",
    ".weight_scale_2",
    ".weight.absmax",
    ".weight.quant_map",
    ".weight.nested_absmax",
    ".weight.nested_quant_map",
    ".weight.quant_state.bitsandbytes__nf4",
    ".input_scale",
    ".input_zero_point",
    ".input_global_scale",
    "_weight_scale",
    "_weight_scale_2",
    "_scale_inv",
    "_input_scale",
    "_proj_scale",
    ".weight",
    "_proj",
};

std::string ending_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(kEndings, [&](const char* ending) { return name.ends_with(ending); });
  return found == kEndings.end() ? "" : *found;
}

DType other_of_its_size(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return dtype == DType::i8 ? DType::boolean : DType::i8;
    case 2:
      return DType::i16;
    case 4:
      return dtype == DType::i32 ? DType::f32 : DType::i32;
    default:
      return DType::f64;
  }
}

void set_first(Tensor& tensor, float value) {
  const DType dtype = tensor.dtype;
  if (dtype_size(dtype) == 1) {  // NaN of float8 and of exponents
    tensor.bytes[0] = static_cast<char>(dtype == DType::f8_e4m3 ? 0x7f : 0xff);
  } else {
    convert(&value, DType::f32, tensor.bytes.data(), dtype, 1);
  }
}

struct Damage {
  const char* name;
  /// False: says nothing of such a tensor.
  bool (*harm)(const std::string& ending, Tensor& tensor);
};

bool is_scale(const std::string& ending, const Tensor& tensor) {
  const bool of_floats =
      tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
  const bool of_bytes = ending.find("scale") != std::string::npos && dtype_size(tensor.dtype) == 1;
  return of_floats || of_bytes ||
         ((ending == ".weight" || ending == "_proj") && tensor.dtype == DType::f8_e4m3);
}

/// Other scales may be zero (of inputs that count for nothing) or below it (AutoRound's).
bool must_be_positive(const std::string& ending) {
  return ending == ".weight_global_scale" || ending.ends_with("weight_scale_2") ||
         ending.ends_with("input_scale") || ending == ".input_global_scale";
}

bool is_zero_of_symmetric(const std::string& ending, const Tensor& tensor) {
  return ending == ".weight_zero_point" && tensor.dtype == DType::i8;
}

const Damage kDamages[] = {
    {"of another type",
     [](const std::string&, Tensor& t) {
       t.dtype = other_of_its_size(t.dtype);
       return true;
     }},
    {"half of it",
     [](const std::string& ending, Tensor& t) {
       if (t.shape.empty() || t.shape[0] < 2 || ending.ends_with("nf4")) return false;
       t.bytes.resize(t.bytes.size() / static_cast<size_t>(t.shape[0]) *
                      static_cast<size_t>(t.shape[0] / 2));
       t.shape[0] /= 2;
       return true;
     }},
    {"turned round",
     [](const std::string&, Tensor& t) {
       if (t.shape.size() != 2 || t.shape[0] == t.shape[1]) return false;
       std::swap(t.shape[0], t.shape[1]);
       return true;
     }},
    {"of no elements",
     [](const std::string&, Tensor& t) {
       t.shape = {0};
       t.bytes.clear();
       return true;
     }},
    {"NaN",
     [](const std::string& ending, Tensor& t) {
       if (!is_scale(ending, t)) return false;
       set_first(t, std::numeric_limits<float>::quiet_NaN());
       return true;
     }},
    {"infinity",
     [](const std::string& ending, Tensor& t) {
       if (!is_scale(ending, t) || dtype_size(t.dtype) == 1) return false;
       set_first(t, std::numeric_limits<float>::infinity());
       return true;
     }},
    {"zero where nothing is",
     [](const std::string& ending, Tensor& t) {
       if (!must_be_positive(ending)) return false;
       set_first(t, 0);
       return true;
     }},
    {"below zero",
     [](const std::string& ending, Tensor& t) {
       if (!must_be_positive(ending)) return false;
       set_first(t, -0.5F);
       return true;
     }},
    {"a zero point of symmetric weights",
     [](const std::string& ending, Tensor& t) {
       if (!is_zero_of_symmetric(ending, t)) return false;
       t.bytes.back() = 1;
       return true;
     }},
    {"a group before the first",
     [](const std::string& ending, Tensor& t) {
       if (!ending.ends_with("g_idx")) return false;
       t.bytes.replace(0, 4, 4, '\xff');
       return true;
     }},
    {"a group behind the last",
     [](const std::string& ending, Tensor& t) {
       if (!ending.ends_with("g_idx")) return false;
       t.bytes.replace(t.bytes.size() - 4, 4, std::string("\xff\xff\xff\x7f", 4));
       return true;
     }},
};

const std::string kFlags = " -q --skip-tokenizer-init --dtype float32 --max-model-len 32";

void check_refused(const test::Scratch& scratch, const std::string& named,
                   const std::string& more = "") {
  const Outcome run = shell(scratch, "plimsoll run model -i in" + kFlags + more);
  INFO(run.err);
  CHECK(run.status == 5);
  CHECK_THAT(run.err, Catch::Contains(named));
}

/// One tensor of each kind that the first layer has.
std::map<std::string, std::string> kinds_of(const Tensors& tensors) {
  std::map<std::string, std::string> kinds;
  for (const auto& [name, tensor] : tensors) {
    const std::string ending = ending_of(name);
    const bool of_codes = ending == ".weight" || ending == "_proj";
    if (of_codes && dtype_size(tensor.dtype) > 1) continue;  // left whole
    if (!ending.empty() && name.find("layers.0.") != std::string::npos)
      kinds.try_emplace(ending, name);
  }
  return kinds;
}

/// Tensors that a format does without.
bool may_be_gone(const std::string& ending, const Tensor& tensor) {
  return is_zero_of_symmetric(ending, tensor) || ending == ".weight_shape" || ending == ".g_idx" ||
         ending == ".weight.nested_absmax";
}

/// Zero points that a format stores and no loader reads: of AMD Quark's int4, whose weights are
/// symmetric and whose codes are signed.
bool is_unread(const fs::path& folder, const std::string& ending) {
  if (ending != ".weight_zero_point") return false;
  const Json settings = model::read_config(folder).at("quantization_config");
  if (settings.at("quant_method") != "quark") return false;
  const Json weight = settings.at("global_quant_config").at("weight");
  return weight.is_object() && weight.at("dtype") == "int4" && weight.at("symmetric") == true;
}

/// Answers are those of the whole checkpoint, whatever becomes of the tensor.
void check_unread(const test::Scratch& scratch, const Tensors& whole, const std::string& name) {
  const auto check = [&](const Tensors& tensors, const std::string& answers) {
    write(scratch.path("model"), tensors);
    const Outcome run = shell(scratch, "plimsoll run model -i in" + kFlags);
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK((answers.empty() || run.out == answers));
    return run.out;
  };
  const std::string answers = check(whole, "");
  Tensors gone = whole;
  gone.erase(name);
  check(gone, answers);
  for (const Damage& damage : kDamages) {
    INFO(damage.name);
    Tensors tensors = whole;
    if (damage.harm(ending_of(name), tensors.at(name))) check(tensors, answers);
  }
}

void check_damages(const test::Scratch& scratch, const Tensors& whole) {
  const fs::path folder = scratch.path("model");
  for (const auto& [ending, name] : kinds_of(whole)) {
    if (is_unread(folder, ending)) {
      INFO(name);
      check_unread(scratch, whole, name);
      continue;
    }
    const bool stack = ending == "_proj" || ending == "_proj_scale";
    const std::string module = stack ? name.substr(0, name.rfind("_proj") + 5)
                                     : name.substr(0, name.size() - ending.size());
    INFO(name);
    if (!may_be_gone(ending, whole.at(name))) {
      Tensors tensors = whole;
      tensors.erase(name);
      write(folder, tensors);
      INFO("gone");
      // Without the stack experts may have been meant to be called one by one.
      check_refused(scratch, ending == "_proj" ? module.substr(0, module.rfind('.')) : module);
    }
    for (const Damage& damage : kDamages) {
      Tensors tensors = whole;
      if (!damage.harm(ending, tensors.at(name))) continue;
      write(folder, tensors);
      INFO(damage.name);
      check_refused(scratch, module);
    }
  }
  write(folder, whole);
}

/// The settings of another method, which say nothing of such tensors.
void check_other_methods(const test::Scratch& scratch) {
  const fs::path file = fs::path(scratch.path("model")) / "config.json";
  const Json config = model::read_config(scratch.path("model"));
  const auto own = config.at("quantization_config").at("quant_method").get<std::string>();
  constexpr const char* kOthers[] = {
      R"({"quant_method": "awq", "bits": 4, "group_size": 128})",
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true})",
      R"({"quant_method": "bitsandbytes", "load_in_4bit": true})",
      R"({"quant_method": "mxfp4"})",
      R"({"quant_method": "compressed-tensors", "config_groups": {}})",
      R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})"};
  for (const char* other : kOthers) {
    Json changed = config;
    changed["quantization_config"] = Json::parse(other);
    const std::string name = changed["quantization_config"]["quant_method"];
    if (name == own) continue;
    std::ofstream(file) << changed.dump();
    INFO(name);
    check_refused(scratch, "layers.0.");
  }
  std::ofstream(file) << config.dump();
}

/// Wherever a download ended.
void check_cut(const test::Scratch& scratch) {
  const fs::path file = fs::path(scratch.path("model")) / "model.safetensors";
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (const int64_t bytes : {size - 1, size / 2, int64_t{100}, int64_t{7}, int64_t{0}}) {
    fs::resize_file(file, static_cast<uintmax_t>(bytes));
    INFO(bytes);
    check_refused(scratch, "model.safetensors");
  }
}

/// Settings of groups and bits that no tensor fits.
void check_settings(const test::Scratch& scratch) {
  const fs::path file = fs::path(scratch.path("model")) / "config.json";
  const Json config = model::read_config(scratch.path("model"));
  const Json text = config.at("quantization_config");
  const auto with = [&](const std::string& key, const Json& value) {
    Json changed = text;
    bool found = false;
    const std::function<void(Json&)> change = [&](Json& at) {
      if (at.is_object() && at.contains(key) && at[key].is_number()) {
        at[key] = value;
        found = true;
      }
      if (at.is_structured())
        for (Json& inner : at) change(inner);
    };
    change(changed);
    if (!found) return;
    Json all = config;
    all["quantization_config"] = changed;
    std::ofstream(file) << all.dump();
    INFO(key << " " << value.dump());
    const Outcome run = shell(scratch, "plimsoll run model -i in" + kFlags);
    INFO(run.err);
    CHECK((run.status == 5 || run.status == 2));
    CHECK(run.err.size() > 20);
  };
  for (const Json& value : {Json(48), Json(7), Json(-9), Json(int64_t{1} << 40), Json("x")})
    with("group_size", value);
  for (const char* key : {"bits", "num_bits"}) {
    if (text.contains("producer")) break;  // ModelOpt's name says bits
    for (const Json& value : {Json(0), Json(5), Json(64), Json(-1), Json("x")}) with(key, value);
  }
  std::ofstream(file) << config.dump();
}

}  // namespace

TEST_CASE("damaged tensors of quantized checkpoints are refused by name") {
  const std::vector<std::string> known = model::supported_architectures();
  for (const fs::path& recipe : model_folders("quantized")) {
    const auto name = model::read_config(recipe).at("architectures").at(0).get<std::string>();
    if (std::ranges::find(known, name) == known.end()) continue;
    DYNAMIC_SECTION(recipe.filename().string()) {
      const test::Scratch scratch;
      write_checkpoint(recipe, scratch.path("model"));
      scratch.write("in", R"({"prompt": [1, 2, 3], "max_tokens": 1})"
                          "\n");
      check_damages(scratch, read(scratch.path("model")));
      check_settings(scratch);
      check_other_methods(scratch);
      check_cut(scratch);
    }
  }
}

TEST_CASE("damaged tensors in formats of other tools are refused by name") {
  size_t number = 0;
  for (const Row& row : kRows) {
    if (recipe_of(row).empty() || !is_taken(number++, 3)) continue;
    DYNAMIC_SECTION(row.name) {
      const test::Scratch scratch;
      write_both(row, scratch.path(""));
      fs::rename(scratch.path("stored"), scratch.path("model"));
      scratch.write("in", R"({"prompt": [1, 2, 3], "max_tokens": 1})"
                          "\n");
      check_damages(scratch, read(scratch.path("model")));
    }
  }
}
