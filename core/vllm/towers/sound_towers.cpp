// Encoders of sound: Whisper's in its several layouts, Qwen3's, and Granite's conformer.
#include <algorithm>

#include "base/rounding.h"
#include "model/pipeline.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

constexpr int64_t kTaps = 3;  // of Whisper's convolutions

int64_t sound_positions(const ConfigView& config) {
  return config.integer({"max_source_positions"}, 1500, {1, 1 << 24});
}

int64_t mel_bins(const ConfigView& config) {
  return config.integer({"num_mel_bins"}, 128, {1, 1 << 16});
}

/// Whisper's layers behind its two convolutions, whole on every rank.
Tower whisper_tower(const ConfigView& config, const char* path) {
  Tower tower;
  tower.path = path;
  tower.layers = config.integer({"encoder_layers", "num_hidden_layers"}, 32, kTowerLayers);
  tower.hidden = config.integer({"d_model", "hidden_size"}, 1280, {1, 1 << 20});
  tower.heads =
      config.integer({"encoder_attention_heads", "num_attention_heads"}, 20, {1, 1 << 16});
  tower.intermediate = config.integer({"encoder_ffn_dim", "intermediate_size"}, 5120, {1, 1 << 24});
  tower.split_attention = tower.split_mlp = false;
  tower.quantized = false;
  tower.layer_extras = -tower.hidden;  // keys have no bias
  tower.patch_inputs = mel_bins(config) * kTaps;
  // The second convolution, and the last norm.
  tower.ends = kTaps * tower.hidden * tower.hidden + tower.hidden + 2 * tower.hidden;
  return tower;
}

/// vLLM's own Whisper encoder: divided over ranks, with a bias for every projection.
Tower split_whisper(const ConfigView& config, const char* path) {
  Tower tower = whisper_tower(config, path);
  tower.split_attention = tower.split_mlp = true;
  tower.quantized = true;
  tower.layer_extras = 0;
  tower.positions = sound_positions(config);
  return tower;
}

/// Notes a clip of so many windows of 30 seconds: two frames of the spectrogram a position.
void note_sound(Builder& build, const ConfigView& config, int64_t tokens, int64_t windows = 1) {
  SoundShape& sound = build.shape.sound;
  sound.tower = build.shape.vision.tower;
  sound.tokens = windows * tokens;
  sound.rows = windows * sound_positions(config);
  sound.elements = 2 * sound.rows * mel_bins(config);
}

/// The omni models' get_mm_max_tokens_per_item was Qwen2-VL's before 0.17, which names no sound:
/// vLLM then counted none (qwen2_5_omni_thinker.py, qwen3_omni_moe_thinker.py).
bool counts_omni_sound(const Builder& build) {
  return build.options.version >= model::VllmVersion{0, 17, 0};
}

/// The omni processors bring frames to less than images; pixels are normalized on the host.
void note_omni_frames(VisionShape& vision) {
  const int64_t unit = vision.patch * vision.merge;
  constexpr int64_t kFrameTokens = 768;
  vision.profiled_frame_pixels = kFrameTokens * unit * unit;
  vision.bytes_on_device = false;
}

}  // namespace

void add_qwen_audio(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = whisper_tower(config, "audio_tower.layers");
  tower.positions = sound_positions(config);
  add_tower(tower, build);
  build.weights.plain(Part::vision, dense(tower.hidden, build.dims.hidden));
  note_sound(build, config, sound_positions(config) / 2);
}

/// Requests have one clip, but for some releases (audioflamingo3.py: get_supported_mm_limits), of
/// ten minutes (max_audio_len of transformers' processor, MAX_AUDIO_LEN before 0.19).
void add_audio_flamingo(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = whisper_tower(config, "audio_tower.layers");
  tower.positions = sound_positions(config);
  add_tower(tower, build);
  project_twice(build, tower.hidden, build.dims.hidden, outer.flag({"projector_bias"}, true));
  constexpr int64_t kWindows = 20;
  note_sound(build, config, sound_positions(config) / 2, kWindows);
  const model::VllmVersion version = build.options.version;
  const bool several =
      version < model::VllmVersion{0, 16, 0} ||
      (version >= model::VllmVersion{0, 19, 0} && version < model::VllmVersion{0, 24, 0});
  build.shape.sound.most = several ? 0 : 1;
}

/// Qwen2.5-Omni's thinker: eyes of Qwen2.5-VL, ears of Whisper.
void add_qwen_omni(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView thinker =
      outer.has_child({"thinker_config"}) ? outer.child({"thinker_config"}) : outer;
  if (wanted(build, {"audio"})) {
    const ConfigView config = thinker.child({"audio_config"});
    const Tower tower = whisper_tower(config, "audio_tower.layers");
    add_tower(tower, build);
    build.weights.buffer(Amount{sound_positions(config)} * tower.hidden * kFloat32);
    const int64_t outputs = config.integer({"output_dim"}, build.dims.hidden, {1, 1 << 24});
    constexpr int64_t kBeginAndEnd = 2;
    build.weights.plain(Part::vision, Amount{tower.hidden + 1 + kBeginAndEnd} * outputs);
    if (counts_omni_sound(build)) note_sound(build, config, sound_positions(config) / 2);
  }
  if (wanted(build, {"image", "video"})) {
    add_qwen2_5_vision(thinker, thinker.child({"vision_config"}), build);
    note_omni_frames(build.shape.vision);
  }
}

namespace {

/// Notes a clip of 30 seconds for Qwen3's encoder (qwen3_omni_moe_thinker.py):
/// _get_feat_extract_output_lengths makes 13 tokens of each 100 frames, which are the encoder's
/// rows too. Pieces of 2 n_window frames pass the convolutions, conv_chunksize at once; the first
/// one's output has half of the pitches and frames.
void note_qwen3_sound(Builder& build, const ConfigView& config, int64_t width) {
  constexpr int64_t kFrames = 3000;
  SoundShape& sound = build.shape.sound;
  sound.tower = build.shape.vision.tower;
  sound.tokens = sound.rows = kFrames / 100 * 13;
  sound.elements = kFrames * mel_bins(config);
  const int64_t half = config.integer({"n_window"}, 50, {1, 1 << 16});
  const int64_t at_once = config.integer({"conv_chunksize"}, 500, {1, 1 << 20});
  const Amount piece = Amount{width} * divide_up(mel_bins(config), 2) * half;
  sound.convolved = (piece * divide_up(kFrames, 2 * half)).value();
  sound.convolved_at_once = (piece * at_once).value();
}

/// Qwen3's encoder of sound: three convolutions over time and pitch, which halve both.
void add_qwen3_ears(const ConfigView& config, Builder& build) {
  Tower tower = whisper_tower(config, "audio_tower.layers");
  tower.split_attention = tower.split_mlp = true;
  tower.whole_if_uneven = true;
  tower.quantized = true;
  tower.layer_extras = 0;
  tower.patch_inputs = 0;
  tower.patch_bias = false;
  const int64_t width = config.integer({"downsample_hidden_size"}, 480, {1, 1 << 20});
  int64_t pitches = mel_bins(config);
  for (int i = 0; i < 3; ++i) pitches = (pitches + 1) / 2;
  constexpr int64_t kSquare = kTaps * kTaps;
  const int64_t out = config.integer({"output_dim"}, 3584, {1, 1 << 20});
  const Amount ends = dense(kSquare, width) + dense(kSquare * width, width) * 2 +
                      Amount{width} * pitches * tower.hidden + layer_norm(tower.hidden) +
                      dense(tower.hidden, tower.hidden) + dense(tower.hidden, out);
  tower.ends = ends.value();
  add_tower(tower, build);
  build.weights.buffer(Amount{sound_positions(config)} * tower.hidden * kFloat32);
  note_qwen3_sound(build, config, width);
}

}  // namespace

void add_qwen3_asr(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView thinker =
      outer.has_child({"thinker_config"}) ? outer.child({"thinker_config"}) : outer;
  add_qwen3_ears(thinker.child({"audio_config"}), build);
}

/// Qwen3-Omni's thinker: eyes of Qwen3-VL, and ears.
void add_qwen3_omni(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView thinker =
      outer.has_child({"thinker_config"}) ? outer.child({"thinker_config"}) : outer;
  if (wanted(build, {"audio"})) {
    const ConfigView config = thinker.child({"audio_config"});
    add_qwen3_ears(config, build);
    SoundShape& sound = build.shape.sound;
    if (counts_omni_sound(build)) {
      // Budgets are made for Qwen2-Audio's tokens, of which the encoder makes half.
      sound.profiled_tokens = sound.tokens;
      sound.tokens = sound_positions(config) / 2;
    } else {
      sound = {};
    }
  }
  if (wanted(build, {"image", "video"})) {
    add_qwen3_vision(thinker, thinker.child({"vision_config"}), build);
    VisionShape& vision = build.shape.vision;
    vision.video = VisionShape::Video::patches;
    vision.most_frames = 14;
    vision.default_min_pixels = 56 * 56;
    vision.default_max_pixels = int64_t{28} * 28 * 16384;
    note_omni_frames(vision);
  }
}

/// GLM-ASR: Whisper's convolutions before layers with rotary positions.
void add_glm_asr(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = whisper_tower(config, "audio_tower.layers");
  tower.split_attention = tower.split_mlp = true;
  tower.quantized = true;
  tower.layer_extras = 0;
  add_tower(tower, build);
  const int64_t size = tower.hidden / tower.heads;
  build.weights.buffer(Amount{size / 4} * kFloat32);  // half of a head turns
  const int64_t merged = tower.intermediate;          // four frames side by side
  const int64_t between = 2 * build.dims.hidden;
  project(build, "multi_modal_projector.linear_1", merged, between, Split::outputs, true);
  project(build, "multi_modal_projector.linear_2", between, build.dims.hidden, Split::inputs, true);
  // Whole windows of max_audio_len, 655 seconds; merge_factor positions are a token (glmasr.py).
  constexpr int64_t kWindows = 655 / 30;
  const int64_t together = outer.integer({"merge_factor"}, 4, {1, 1 << 10});
  note_sound(build, config, sound_positions(config) / together, kWindows);
}

void add_ultravox(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  const Tower tower = split_whisper(config, "audio_tower.layers");
  add_tower(tower, build);
  const int64_t stack = outer.integer({"stack_factor"}, 8, {1, 1 << 10});
  const int64_t stacked = tower.hidden * stack;
  const int64_t wide = outer.integer({"hidden_size"}, 4096, {2, 1 << 24});
  const int64_t half = outer.text({"projector_act"}, "swiglu") == "swiglu" ? wide / 2 : wide;
  const bool middle = outer.flag({"projector_ln_mid"}, false);
  build.weights.plain(Part::vision, Amount{stacked} + (middle ? half : build.dims.hidden) +
                                        Amount{stacked} * wide + Amount{half} * build.dims.hidden);
  // ultravox.py: the dummy has _MAX_ENCODER_BATCH_SIZE windows, which pass the encoder at once;
  // StackAudioFrames pads positions to whole stacks.
  constexpr int64_t kWindows = 16;
  note_sound(build, config, divide_up(sound_positions(config), stack), kWindows);
  build.shape.sound.rows_at_once = build.shape.sound.rows;
}

/// Whisper itself: the decoder attends to the encoder's states, one clip a request.
void add_whisper_encoder(const ConfigView& outer, const ConfigView&, Builder& build) {
  add_tower(split_whisper(outer, "model.encoder.layers"), build);
  note_sound(build, outer, sound_positions(outer));
  build.shape.sound.most = 1;
}

/// MiniCPM-o: eyes of MiniCPM-V, ears of Whisper, each whole on every rank.
void add_minicpm_omni(const ConfigView& outer, const ConfigView& vision, Builder& build) {
  if (wanted(build, {"image", "video"})) add_minicpm_vision(outer, vision, build);
  if (!wanted(build, {"audio"})) return;
  const TowerShape eyes = build.shape.vision.tower;
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = whisper_tower(config, "apm.layers");
  tower.positions = sound_positions(config);
  add_tower(tower, build);
  build.shape.sound.tower = build.shape.vision.tower;
  build.shape.vision.tower = eyes;
  project_twice(build, tower.intermediate / 4, build.dims.hidden, true);
}

/// Voxtral: the layers of the encoder are divided over stages as those of the language model are,
/// and its positions stay in float32. Its input are samples, padded to pieces of 30 seconds
/// (voxtral.py: get_max_audio_tokens, get_max_audio_array_len, prepare_inputs_for_conv). Of the
/// five clips that a request may have a context holds one.
void add_voxtral(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = split_whisper(config, "whisper_encoder.layers");
  const model::StageLayers layers = model::layers_of_stage(
      tower.layers, build.options.pipeline_rank, build.options.pipeline_parallel, {});
  tower.layers = layers.end - layers.first;
  add_tower(tower, build);
  const Amount table = Amount{tower.positions} * tower.hidden;
  build.weights.parameters(Part::vision, table * (kFloat32 - build.options.element));
  const int64_t together = config.integer({"downsample_factor"}, 4, {1, 1 << 10});
  project_twice(build, tower.hidden * together, build.dims.hidden, false);
  const int64_t window = config.integer({"window_size"}, 400, {1, 1 << 20});
  build.weights.buffer(Amount{1 + window / 2} * mel_bins(config) * kFloat32);
  note_sound(build, config, sound_positions(config) / together);
  SoundShape& sound = build.shape.sound;
  sound.elements = 2 * sound.rows * config.integer({"hop_length"}, 160, {1, 1 << 16});
  sound.fills_context = sound.tokens > 0;
  sound.most = 5;
}

void add_granite_speech(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"encoder_config"});
  const int64_t hidden = config.integer({"hidden_dim"}, 1024, {1, 1 << 16});
  const int64_t layers = config.integer({"num_layers"}, 10, kTowerLayers);
  const int64_t wide = hidden * config.integer({"feedforward_mult"}, 4, {1, 1 << 10});
  const int64_t heads = config.integer({"num_heads"}, 8, {1, 1 << 16});
  const int64_t size = config.integer({"dim_head"}, 128, {1, 1 << 16});
  const int64_t inner = hidden * config.integer({"conv_expansion_factor"}, 2, {1, 1 << 10});
  const int64_t taps = config.integer({"conv_kernel_size"}, 15, {1, 1 << 16});
  const int64_t reach = config.integer({"max_pos_emb"}, 512, {1, 1 << 20});
  const Amount attention = layer_norm(hidden) + Amount{hidden} * heads * size * 3 +
                           dense(heads * size, hidden) + Amount{2 * reach + 1} * size;
  const Amount convolution = layer_norm(hidden) + dense(hidden, 2 * inner) + Amount{inner} * taps +
                             layer_norm(inner) + dense(inner, hidden);
  const int64_t letters = config.integer({"output_dim"}, 42, {1, 1 << 20});
  const int64_t inputs = config.integer({"input_dim"}, 160, {1, 1 << 16});
  Amount elements =
      (attention + convolution + layer_norm(hidden) * 3) * layers + dense(inputs, hidden);
  for (int64_t feed = 0; feed < 2 * layers; ++feed) {
    project(build, "encoder.ff.up_proj", hidden, wide, Split::outputs, true);
    project(build, "encoder.ff.down_proj", wide, hidden, Split::inputs, true);
  }
  project(build, "encoder.out", hidden, letters, Split::outputs, true);
  project(build, "encoder.out_mid", letters, hidden, Split::inputs, true);
  constexpr int64_t kBatches = 8;  // int64: how many batches the norm has seen
  build.weights.buffer((Amount{2} * inner * build.options.element + kBatches) * layers);
  const ConfigView reader = outer.child({"projector_config"});
  const int64_t width = reader.integer({"hidden_size"}, 768, {1, 1 << 20});
  const int64_t window = outer.integer({"window_size"}, 15, {1, 1 << 20});
  const int64_t queries = window / outer.integer({"downsample_rate"}, 5, {1, 1 << 20});
  elements += qformer_elements(reader, reader.integer({"encoder_hidden_size"}, 1408, {1, 1 << 20}));
  elements += Amount{queries} * width + dense(width, build.dims.hidden);
  build.weights.plain(Part::vision, elements);
  // granite_speech.py: one clip, of get_max_audio_len() samples; a step of the spectrogram is
  // hop_length (160) of them, and two steps are a row.
  constexpr int64_t kRows = (8'000'000 / 160 + 1) / 2;
  SoundShape& sound = build.shape.sound;
  sound.tower = {hidden, wide, false};
  sound.rows = kRows;
  sound.tokens = divide_up(kRows, window) * queries;
  sound.elements = kRows * inputs;
  sound.most = 1;
}

}  // namespace plimsoll::vllm
