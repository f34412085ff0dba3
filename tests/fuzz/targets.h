// Readers of input from users and strangers, each as a function of bytes. A target returns whatever
// the bytes are: exceptions of a reader at malformed input are caught; other exceptions are
// findings, as are crashes, hangs, reports of a sanitizer, and a broken promise (std::logic_error).
#pragma once

#include <string_view>

namespace plimsoll::fuzz {

void chat_template(std::string_view bytes);  // chat_template.jinja, rendered
void config(std::string_view bytes);         // config.json, quantization_config too
void gif(std::string_view bytes);            // images, headers and pixels
void gguf(std::string_view bytes);           // a GGUF file's header and metadata
void in_flight(std::string_view bytes);      // OUT.running
void index(std::string_view bytes);          // model.safetensors.index.json
void jpeg(std::string_view bytes);
void journal(std::string_view bytes);       // OUT.part
void json_line(std::string_view bytes);     // requests, a line each
void manifest(std::string_view bytes);      // OUT.run.json
void own_record(std::string_view bytes);    // a line of OUT.part, by its outline alone
void packed_input(std::string_view bytes);  // gzip, zstd or text, as lines
void png(std::string_view bytes);
void preparation(std::string_view bytes);     // a line's mm_processor_kwargs, on images of any size
void reasoning(std::string_view bytes);       // an answer with reasoning, in any format
void record_digests(std::string_view bytes);  // OUT.part.xxh3
void regex(std::string_view bytes);           // a pattern of a request
void safetensors(std::string_view bytes);     // a weights' file
void schema(std::string_view bytes);          // a JSON schema, compiled, and a text to validate
void tokenizer(std::string_view bytes);       // tokenizer.json, used
void tool_calls(std::string_view bytes);      // an answer with calls of tools, in any format
void webp(std::string_view bytes);

struct Target {
  const char* name;  // of its folder of seeds too
  void (*read)(std::string_view bytes);
};

inline constexpr Target kTargets[] = {
    {"chat_template", chat_template},
    {"config", config},
    {"gif", gif},
    {"gguf", gguf},
    {"in_flight", in_flight},
    {"index", index},
    {"jpeg", jpeg},
    {"journal", journal},
    {"json_line", json_line},
    {"manifest", manifest},
    {"own_record", own_record},
    {"packed_input", packed_input},
    {"png", png},
    {"preparation", preparation},
    {"reasoning", reasoning},
    {"record_digests", record_digests},
    {"regex", regex},
    {"safetensors", safetensors},
    {"schema", schema},
    {"tokenizer", tokenizer},
    {"tool_calls", tool_calls},
    {"webp", webp},
};

}  // namespace plimsoll::fuzz
