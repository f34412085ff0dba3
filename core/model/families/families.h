// One function per family: config.json's numbers to a ModelSpec. A new family is a function in
// dense/, mixtures/, recurrent/ or multimodal/, and a row of families.cpp.
#pragma once

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

ModelSpec make_llama(const ConfigReader& config);
ModelSpec make_mistral(const ConfigReader& config);
ModelSpec make_mixtral(const ConfigReader& config);
ModelSpec make_qwen2(const ConfigReader& config);
ModelSpec make_qwen3(const ConfigReader& config);
ModelSpec make_qwen3_moe(const ConfigReader& config);
ModelSpec make_qwen2_moe(const ConfigReader& config);
ModelSpec make_glm4_moe(const ConfigReader& config);
ModelSpec make_dots1(const ConfigReader& config);
ModelSpec make_hy_v3(const ConfigReader& config);
ModelSpec make_exaone_moe(const ConfigReader& config);
ModelSpec make_ernie4_5_moe(const ConfigReader& config);
ModelSpec make_granitemoe(const ConfigReader& config);
ModelSpec make_granitemoeshared(const ConfigReader& config);
ModelSpec make_granitemoe_swa(const ConfigReader& config);
ModelSpec make_gpt_oss(const ConfigReader& config);
ModelSpec make_afmoe(const ConfigReader& config);
ModelSpec make_mellum(const ConfigReader& config);
ModelSpec make_axk1(const ConfigReader& config);
ModelSpec make_aria_text(const ConfigReader& config);
ModelSpec make_bailing_moe(const ConfigReader& config);  // Ling 1 and 2, Sarvam's smaller
ModelSpec make_deepseek(const ConfigReader& config);
ModelSpec make_deepseek_v2(const ConfigReader& config);
ModelSpec make_deepseek_v3(const ConfigReader& config);
ModelSpec make_deepseek_v32(const ConfigReader& config);
ModelSpec make_glm4_moe_lite(const ConfigReader& config);
ModelSpec make_glm_moe_dsa(const ConfigReader& config);
ModelSpec make_cohere2_moe(const ConfigReader& config);
ModelSpec make_dbrx(const ConfigReader& config);
ModelSpec make_mimo_v2_flash(const ConfigReader& config);
ModelSpec make_laguna(const ConfigReader& config);
ModelSpec make_gemma4(const ConfigReader& config);
ModelSpec make_longcat_flash(const ConfigReader& config);
ModelSpec make_llama4(const ConfigReader& config);
ModelSpec make_phimoe(const ConfigReader& config);
ModelSpec make_transformers_phimoe(const ConfigReader& config);
ModelSpec make_olmoe(const ConfigReader& config);
ModelSpec make_flex_olmo(const ConfigReader& config);
ModelSpec make_pangu_ultra_moe(const ConfigReader& config);
ModelSpec make_param2_moe(const ConfigReader& config);
ModelSpec make_sarvam_mla(const ConfigReader& config);
ModelSpec make_step3p5(const ConfigReader& config);
ModelSpec make_minimax_m2(const ConfigReader& config);
ModelSpec make_hunyuan_v1_moe(const ConfigReader& config);
ModelSpec make_minicpm3(const ConfigReader& config);
ModelSpec make_gemma2(const ConfigReader& config);
ModelSpec make_gemma3n(const ConfigReader& config);
ModelSpec make_gemma3(const ConfigReader& config);
ModelSpec make_rnj1(const ConfigReader& config);
ModelSpec make_plamo3(const ConfigReader& config);
ModelSpec make_phi3(const ConfigReader& config);
ModelSpec make_opt(const ConfigReader& config);
ModelSpec make_gpt2(const ConfigReader& config);
ModelSpec make_internlm2(const ConfigReader& config);

ModelSpec make_glm(const ConfigReader& config);
ModelSpec make_glm4(const ConfigReader& config);
ModelSpec make_gemma(const ConfigReader& config);
ModelSpec make_vaultgemma(const ConfigReader& config);

// dense_rms.cpp: RMS norms before each branch, gated or plain MLPs.
ModelSpec make_apertus(const ConfigReader& config);
ModelSpec make_arcee(const ConfigReader& config);
ModelSpec make_cwm(const ConfigReader& config);
ModelSpec make_ernie4_5(const ConfigReader& config);
ModelSpec make_helium(const ConfigReader& config);
ModelSpec make_hunyuan_dense(const ConfigReader& config);
ModelSpec make_internlm3(const ConfigReader& config);
ModelSpec make_ministral3(const ConfigReader& config);
ModelSpec make_nemotron_nas(const ConfigReader& config);
ModelSpec make_seed_oss(const ConfigReader& config);
ModelSpec make_smollm3(const ConfigReader& config);

// own_code.cpp: kin of Llama whose classes come with checkpoints; fused.cpp: such families with q,
// k and v stored as one.
ModelSpec make_baichuan(const ConfigReader& config);
ModelSpec make_baichuan_7b(const ConfigReader& config);
ModelSpec make_chatglm(const ConfigReader& config);
ModelSpec make_exaone(const ConfigReader& config);
ModelSpec make_internlm(const ConfigReader& config);
ModelSpec make_mimo(const ConfigReader& config);
ModelSpec make_minicpm(const ConfigReader& config);
ModelSpec make_orion(const ConfigReader& config);
ModelSpec make_pangu_embedded(const ConfigReader& config);
ModelSpec make_qwen(const ConfigReader& config);
ModelSpec make_step1(const ConfigReader& config);
ModelSpec make_teleflm(const ConfigReader& config);
ModelSpec make_telechat2(const ConfigReader& config);

// scaled.cpp: factors at embedding, branches and logits.
ModelSpec make_granite(const ConfigReader& config);
ModelSpec make_granite_swa(const ConfigReader& config);
ModelSpec make_hyperclovax(const ConfigReader& config);

// outer_norms.cpp: norms behind the branches alone; OLMo's without weights.
ModelSpec make_exaone4(const ConfigReader& config);
ModelSpec make_olmo(const ConfigReader& config);
ModelSpec make_olmo2(const ConfigReader& config);
ModelSpec make_olmo3(const ConfigReader& config);

// layer_norms.cpp, one after the other; parallel.cpp, side by side.
ModelSpec make_jais2(const ConfigReader& config);
ModelSpec make_nemotron(const ConfigReader& config);
ModelSpec make_persimmon(const ConfigReader& config);
ModelSpec make_stablelm(const ConfigReader& config);
ModelSpec make_starcoder2(const ConfigReader& config);
ModelSpec make_cohere(const ConfigReader& config);
ModelSpec make_cohere2(const ConfigReader& config);
ModelSpec make_codegen(const ConfigReader& config);
ModelSpec make_gptj(const ConfigReader& config);
ModelSpec make_gpt_neox(const ConfigReader& config);
ModelSpec make_phi(const ConfigReader& config);

// older.cpp: ALiBi, one key head, fused projections.
ModelSpec make_bloom(const ConfigReader& config);
ModelSpec make_falcon(const ConfigReader& config);
ModelSpec make_gpt_bigcode(const ConfigReader& config);
ModelSpec make_mpt(const ConfigReader& config);

// Recurrent layers, with attention in some: lfm2.cpp, mamba.cpp (without), mamba_hybrids.cpp,
// gated_delta.cpp.
ModelSpec make_bamba(const ConfigReader& config);
ModelSpec make_falcon_h1(const ConfigReader& config);
ModelSpec make_falcon_mamba(const ConfigReader& config);
ModelSpec make_granite_hybrid(const ConfigReader& config);
ModelSpec make_kimi_linear(const ConfigReader& config);
ModelSpec make_minimax(const ConfigReader& config);
ModelSpec make_minimax_m1(const ConfigReader& config);  // MiniMax-01 too
ModelSpec make_jamba(const ConfigReader& config);
ModelSpec make_lfm2(const ConfigReader& config);
ModelSpec make_lfm2_moe(const ConfigReader& config);
ModelSpec make_mamba(const ConfigReader& config);
ModelSpec make_mamba2(const ConfigReader& config);
ModelSpec make_olmo_hybrid(const ConfigReader& config);
ModelSpec make_nemotron_h(const ConfigReader& config);
ModelSpec make_recurrent_gemma(const ConfigReader& config);
ModelSpec make_qwen3_5(const ConfigReader& config);
ModelSpec make_qwen3_5_moe(const ConfigReader& config);
ModelSpec make_zamba2(const ConfigReader& config);
ModelSpec make_qwen3_next(const ConfigReader& config);

// Described for `plan` alone: counted/, and files of their kin.
ModelSpec make_bert(const ConfigReader& config);  // RoBERTa too
ModelSpec make_deepseek_v4(const ConfigReader& config);
ModelSpec make_ernie4_5_vl(const ConfigReader& config);
ModelSpec make_glm5_next(const ConfigReader& config);
ModelSpec make_gte(const ConfigReader& config);
ModelSpec make_hy_v4(const ConfigReader& config);
ModelSpec make_kimi_k3(const ConfigReader& config);
ModelSpec make_ling_2_5(const ConfigReader& config);
ModelSpec make_ling_3(const ConfigReader& config);
ModelSpec make_minimax_m3(const ConfigReader& config);
ModelSpec make_qwen4_exp(const ConfigReader& config);
ModelSpec make_modern_bert(const ConfigReader& config);
ModelSpec make_molmo2(const ConfigReader& config);
ModelSpec make_muse_glimmer(const ConfigReader& config);
ModelSpec make_nomic_bert(const ConfigReader& config);
ModelSpec make_step3(const ConfigReader& config);
ModelSpec make_unknown_mixture(const ConfigReader& config);
ModelSpec make_whisper(const ConfigReader& config);

// Multimodal models: one of the text families with a vision tower.
ModelSpec make_gemma3_multimodal(const ConfigReader& config);
ModelSpec make_idefics3(const ConfigReader& config);  // SmolVLM too
ModelSpec make_internvl(const ConfigReader& config);
ModelSpec make_llava(const ConfigReader& config);
ModelSpec make_qwen2_vl(const ConfigReader& config);
ModelSpec make_qwen2_5_vl(const ConfigReader& config);
ModelSpec make_text_alone(const ConfigReader& config);  // any text family, without the tower

}  // namespace plimsoll::model
