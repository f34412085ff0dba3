// The shape of a model on one rank: parameters, buffers, and each layer's kind of cache. Built from
// a config.json alone, for every kind of model that people ask about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config_view.h"
#include "vllm/shapes/latent_backend.h"
#include "vllm/shapes/rank_weights.h"

namespace plimsoll::vllm {

/// Content of a layer's cache.
enum class KvKind : uint8_t {
  full,            // keys and values of every token
  sliding,         // of the last `window` tokens
  chunked,         // of the current chunk of `window` tokens
  latent,          // one compressed vector for each token (MLA)
  sliding_latent,  // of the last `window` tokens
  state,           // a recurrent state of fixed size (Mamba, linear attention)
  crossed,         // keys and values of the encoder's output
  ring,            // the newest tokens of a request, in one block (GLM-5.3-Flash)
};

/// One layer's cache on one rank.
struct KvLayer {
  KvKind kind = KvKind::full;
  Amount token_bytes;       // of one token, before padding; a state's size for KvKind::state
  int64_t window = 0;       // tokens; sliding and chunked only
  int64_t fixed_block = 0;  // tokens per block where the kernel dictates it; 0: the engine's size
  int64_t compression = 1;  // tokens covered by one stored entry (DeepSeek-V4)
  int64_t alignment = 0;    // pages are padded to a multiple of this; 0: not padded
  int64_t checkpoint = 0;   // a prefill exports the state at a multiple of so many tokens; 0: never
  Amount stride = 0;        // bytes of which a packed block is a multiple, and
  int64_t kernel_block = 0;  // tokens of the kernel's blocks, of whole pages of which it is one
  bool replicated = false;   // a state that every rank has whole
  std::string kernel;        // layers with different kernels differ even where sizes agree
  auto operator<=>(const KvLayer&) const = default;
};

/// Which attention kernels the model's layers use; it decides the sizes of block that are allowed.
enum class AttentionKernel : uint8_t { flash, large_head_flash, mla, sparse_mla, deepseek_v4 };

/// Sizes that the activation model needs, of one rank.
struct ActivationShape {
  int64_t hidden = 0;
  int64_t vocabulary = 0;
  int64_t intermediate = 0;         // widest dense feed-forward, divided over ranks
  int64_t expert_intermediate = 0;  // 0: no experts
  int64_t experts_per_token = 0;
  bool triton_experts = true;     // experts run in the kernel with a workspace in device memory
  bool int8_activations = false;  // inputs of linear layers are copied to 8 bits at run time
};

/// A transformer that reads images or sound, as far as its activations need it.
struct TowerShape {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  bool gated = false;
};

/// The largest image and video that a model's processor makes, and the tower that reads them. Sizes
/// are those of the published processors; --mm-processor-kwargs and a preprocessor_config.json
/// beside the config replace them.
struct VisionShape {
  /// How images become tokens.
  enum class Kind : uint8_t {
    none,
    patches,         // as many as the pixels allow, merged by squares (Qwen-VL)
    pixel_volume,    // as patches, counting the pixels of all frames (GLM-4V)
    patch_limit,     // a square whose patches stay under a limit, padded to whole tokens (MoonViT)
    longest_edge,    // a square of the longest side (Pixtral)
    fixed_tokens,    // one size
    tiles,           // crops of one size, and a thumbnail of the whole where there are several
    split,           // tiles of the image brought to the longest edge, and the whole (Idefics3)
    any_resolution,  // the tiles of the best of the listed sizes, less padding, and the whole
    other,
  } kind = Kind::none;
  /// How videos become tokens.
  enum class Video : uint8_t {
    none,
    patches,  // frames of the largest image, as many as the context holds, up to most_frames
    budget,   // two frames that fill the video's own pixels (Qwen3-VL)
    volume,   // the frames that come closest to what the context holds (GLM-4V)
    tiles,    // a tile a frame, as many as the context holds beside an image (InternVL)
    pooled,   // tokens_per_frame each, as many as the context holds, up to most_frames
    fixed,    // most_frames of tokens_per_frame (Gemma 4)
  } video = Video::none;
  TowerShape tower;
  int64_t patch = 14;
  int64_t merge = 1;  // patches per token, on one side
  int64_t temporal_patch = 1;
  int64_t image_size = 0;
  int64_t tokens_per_image = 0;  // of fixed_tokens; of one tile for tiles and split
  int64_t rows_per_tile = 0;     // rows in the tower; 0: the tile's patches
  int64_t max_tiles = 1;
  bool thumbnail = true;
  const char* tiles_key = nullptr;  // the processor's switch for tiles; nullptr: always on
  bool tiles_on = true;             // unless that switch says otherwise
  bool nine_tiles = false;          // any_resolution: scaled down to nine tiles' worth
  std::vector<std::pair<int64_t, int64_t>> pinpoints;  // any_resolution: height and width
  int64_t longest_edge = 0;
  int64_t dummy_side = 0;   // patch_limit: of the square that is profiled
  int64_t patch_limit = 0;  // patch_limit: patches of an image
  int64_t default_max_pixels = 0;
  int64_t default_min_pixels = 0;
  int64_t video_max_pixels = 0;
  int64_t video_min_pixels = 0;
  int64_t tokens_per_frame = 0;
  int64_t frame_rows = 0;             // fixed: rows of the tower, a frame
  int64_t profiled_tokens = 0;        // of the small image that is profiled; 0: of the largest
  int64_t profiled_frame_tokens = 0;  // of a frame that is profiled; 0: of the largest
  int64_t profiled_frame_pixels = 0;  // frames are profiled at most so large; 0: as counted
  int64_t frame_marks = 0;            // volume: tokens of time beside each frame
  int64_t video_tokens = 0;           // beside the frames' own
  int64_t most_frames = 0;            // 0: no bound
  int64_t most_images = 0;            // of a request; 0: any number
  int64_t most_videos = 0;            // of a request; 0: any number
  bool images = true;                 // false: the model takes videos alone
  bool bytes_on_device = false;       // pixels are normalized on the device (0.28 and later)
  int64_t deep_levels = 0;            // outputs of deeper layers beside the last one's (Qwen3-VL)
  const char* image_modality = "image";
};

/// Needs of one clip of sound of the largest length.
struct SoundShape {
  TowerShape tower;
  int64_t tokens = 0;    // 0: no tower for sound, or none that is modelled
  int64_t rows = 0;      // rows in the tower
  int64_t elements = 0;  // of its input
  int64_t most = 0;      // clips of a request; 0: any number
  /// The largest clip has a token for each of the context; the sizes above are those of the pieces
  /// that it is padded to and cut into (Voxtral).
  bool fills_context = false;
  int64_t profiled_tokens = 0;  // of the clip that is profiled; 0: of the largest
  int64_t rows_at_once = 0;     // more pass the tower in turn; 0: all at once
  int64_t convolved = 0;        // elements of a clip behind the first convolution, where these lead
  int64_t convolved_at_once = 0;  // more pass the convolutions in turn
};

/// How the kernel of 4-bit experts stores them: padded, and perhaps once more in its own order.
struct ExpertKernel {
  int64_t hidden_multiple = 1;
  int64_t intermediate_multiple = 1;  // of each rank's slice
  bool reordered = false;             // scales are kept beside a reordered copy, biases in float32
  bool padded_values = false;         // reordered weights are padded in both directions
};

/// Buffers of indices of the keys that indexers choose.
struct ChoiceBuffers {
  Amount token_bytes;        // of one token of a step
  Amount row_bytes;          // of one row of a copy by the cache's blocks
  int64_t copies = 0;        // from 0.30 on (v1/attention/backends/mla/index_group.py)
  bool whole_steps = false;  // copies have a row for each token of a step, else of a decode
};

/// Sizes of latent (MLA) and compressed (DeepSeek-V4) attention, of one rank: what their backends
/// and indexers reserve goes by them.
struct AttentionSizes {
  int64_t heads = 0;        // of queries; 0: attention is of another kind
  int64_t query = 0;        // elements of a head of a query
  int64_t value = 0;        // elements of a head of the output
  int64_t expanded = 0;     // elements of a head's key without positions and value; 0: compressed
  int64_t latent = 0;       // elements of a cached row without positions
  int64_t row = 0;          // elements of a cached row
  int64_t index_key = 0;    // elements of a key of an indexer, a byte each; 0: there is no indexer
  int64_t pool = 1;         // tokens that such a key stands for
  int64_t chosen = 0;       // keys that an indexer chooses
  int64_t compression = 0;  // tokens that a compressed entry stands for, at least; 0: none is
  int64_t window = 0;       // tokens before a token whose entries are not compressed
};

/// Elements that a draft with a model of its own keeps of each token of a step.
struct DraftRows {
  Amount hidden;               // hidden states that it reads; 0: there is no such draft
  Amount handed;               // residual streams that the model hands to it
  bool embeds_images = false;  // it reads embeddings of images too, in the second model runner
};

/// What a class that generates is made into, to answer with vectors or classes
/// (vllm/model_executor/models/adapters.py).
enum class Converts : uint8_t { nothing, to_vectors, to_classes };

/// Options of build_shape.
struct ShapeOptions {
  model::VllmVersion version;
  hardware::Architecture card = hardware::Architecture::hopper;
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  int64_t data_parallel = 1;  // experts are divided over the ranks of all replicas
  int64_t pipeline_rank = 0;
  std::vector<int64_t> pipeline_partition;  // layers of each stage; empty: vLLM's choice
  bool expert_parallel = false;
  bool refined_blocks = true;  // experts' scales are refined where a rank's slice cuts a block
  int64_t element = 2;         // bytes of the model's dtype
  int64_t kv_element = 2;      // bytes of a cached element
  CacheType cache = CacheType::whole;
  std::vector<std::string> absent;  // modalities without requests: their towers are not built
  bool first_engine = false;        // V0's states of linear attention, and its caches of a decoder
  bool pools = false;               // answers with vectors or classes
  Converts converts = Converts::nothing;
  std::string state_dtype;      // --mamba-ssm-cache-dtype
  bool ngrams_on_host = false;  // embeddings of n-grams lie in the host's memory
  int64_t ngram_replicas = 1;   // replicas over which these embeddings are divided
  int64_t draft_tokens = 0;     // proposed for each step
  int64_t lora_slots = 0;       // adapters held at once; 0: none
  int64_t lora_rank = 0;
  ExpertKernel mxfp4;
};

struct ModelShape {
  std::string architecture;
  bool estimated = false;  // the architecture is unknown and was read as its nearest kin
  std::string uncounted;   // a key of such a config for layers which are not counted
  std::string note;
  int64_t first_layer = 0;   // of the pipeline stage
  int64_t stage_layers = 0;  // number of layers of the stage
  int64_t hidden = 0;
  int64_t heads = 0;     // of queries, in the whole model
  int64_t kv_heads = 0;  // 0: no layer has attention
  int64_t vocabulary = 0;
  bool mixture = false;
  bool lacks_mixture = false;  // its class looks for one, and this stage has none
  bool recurrent = false;      // some layers keep a state
  int64_t state_chunk = 0;     // tokens of a chunk of Mamba's kernels
  bool attention_free = false;
  bool multimodal = false;
  int64_t block_multiple = 1;  // tokens, of which a hybrid's block is one for its indexers
  bool packs_pages = false;    // caches of unequal pages lie side by side in a block
  bool encoder = false;        // attends both ways: no cache and no generation
  bool pools = false;          // answers with vectors or classes: nothing is sampled
  bool encoder_decoder = false;
  bool prefix_images = false;  // image tokens attend to each other
  bool flashinfer = true;      // its kernels take these heads: their sizes, no sinks
  AttentionKernel kernel = AttentionKernel::flash;
  LatentBackend latent;  // of the kernels mla and sparse_mla
  /// Bytes of one token in one full-attention layer; hybrids align blocks to them.
  Amount attention_token_bytes;
  std::vector<KvLayer> kv_layers;
  Amount after_loading_bytes = 0;  // copies that are made once the weights are there
  ChoiceBuffers choice;
  AttentionSizes attention;
  DraftRows draft;
  Amount host_table_bytes = 0;     // embeddings of n-grams in the host's memory, of a rank
  Amount looked_up_bytes = 0;      // that of one token of a step, from these embeddings
  Amount adapted_table_bytes = 0;  // of adapters of the token table, by token and slot
  ActivationShape activation;
  VisionShape vision;
  SoundShape sound;
};

/// The part of a config that describes the language model.
ConfigView text_config(const ConfigView& config);

/// True for encoders and for models with classes of each step, which take no prompt in parts.
bool reads_whole_prompts(const ConfigView& config);

/// True when the language model's architecture has a row; others are read as their nearest kin.
bool is_known_architecture(const ConfigView& config);

/// The architecture's name as vLLM resolves it.
std::string architecture_name(const ConfigView& config);

/// Counts parameters and buffers into `weights` and returns the rest. Throws Error
/// (checkpoint_unusable) for a config that cannot be a model of this architecture, Error(usage) for
/// a tensor-parallel size that vLLM refuses.
ModelShape build_shape(const ConfigView& config, const ShapeOptions& options, RankWeights& weights);

/// True for a head of EAGLE that is counted: its layers are those of a family that is described.
bool is_draft_head(const ConfigView& config);

/// The model for which a head drafts.
struct DraftTarget {
  int64_t vocabulary = 0;
  int64_t max_model_len = 0;  // the head's rotary table reaches as far
};

/// Counts a head of EAGLE (`third`: EAGLE-3) over Llama's layers, as build_shape counts a model.
/// The head's embedding, and EAGLE's output, are the target's, as in published heads.
ModelShape build_draft_head(const ConfigView& config, bool third, const DraftTarget& target,
                            const ShapeOptions& options, RankWeights& weights);

}  // namespace plimsoll::vllm
