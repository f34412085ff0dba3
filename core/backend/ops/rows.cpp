#include "backend/ops/rows.h"

#include "backend/checks.h"

namespace plimsoll::backend::ops {
namespace {

void check_table(const char* op, View out, const Weight& table) {
  if (out.columns != table.spec->columns()) {
    disagree("{}: out {} does not match {}", op, show(out), show(table));
  }
}

void check_norm(const char* op, View out, View in, const Weight& weight, const Weight& bias) {
  check_same(op, "out", out, "in", in);
  check_vector(op, weight, "in", in);
  check_vector(op, bias, "in", in);
}

}  // namespace

void Embed::check() const {
  check_rows(kName, out, "ids", batch->token_ids.size());
  check_table(kName, out, table);
}

void EmbedPositions::check() const {
  check_rows(kName, out, "positions", batch->positions.size());
  check_table(kName, out, table);
}

void PlaceEmbeddings::check() const {
  const View& from = batch->embeddings;
  if (batch->embedded_rows.size() != batch->embedding_rows.size() || out.columns != from.columns ||
      out.dtype != from.dtype) {
    disagree("{}: {} rows of out {} do not match {} of embeddings {}", kName,
             batch->embedded_rows.size(), show(out), batch->embedding_rows.size(), show(from));
  }
}

void GatherRows::check() const {
  check_rows(kName, out, "rows", batch->logits_rows.size());
  if (out.columns != in.columns || out.dtype != in.dtype) {
    disagree("{}: out {} does not match in {}", kName, show(out), show(in));
  }
}

void Norm::check() const {
  const bool in_turn = weight && weight.spec->elements() % in.columns == 0;
  check_norm(kName, out, in, in_turn ? Weight{} : weight, bias);
}

void Add::check() const {
  check_same(kName, "residual", residual, "delta", delta);
}

void AddNorm::check() const {
  check_same(kName, "residual", residual, "delta", delta);
  check_norm(kName, out, residual, weight, bias);
}

void CopyHeads::check() const {
  const auto end = [&](int64_t first, int64_t stride) {
    return first + (columns.heads - 1) * stride + columns.width;
  };
  const bool from_nothing = in.rows == 0;
  if (end(columns.to, columns.to_stride) > out.columns ||
      (!from_nothing && (end(columns.from, columns.from_stride) > in.columns ||
                         in.rows != out.rows || in.dtype != out.dtype))) {
    disagree("{}: {} heads of {} columns of in {} do not fit out {}", kName, columns.heads,
             columns.width, show(in), show(out));
  }
}

void AverageParts::check() const {
  if (out.rows != in.rows || out.columns == 0 || in.columns % out.columns != 0 ||
      out.dtype != in.dtype) {
    disagree("{}: out {} does not divide in {}", kName, show(out), show(in));
  }
}

void ScaleColumns::check() const {
  if (weight.spec->elements() != x.columns) {
    disagree("{}: x {} does not match {}", kName, show(x), show(weight));
  }
}

void MultiplyFactors::check() const {
  const bool by_index = indices.columns > 0;
  if (by_index) check_shape(kName, "indices", indices, x.rows, x.columns);
  if (!factors || (!by_index && factors.spec->elements() != 1)) {
    disagree("{}: one factor, or one for each index", kName);
  }
}

void MatchSize::check() const {
  check_same(kName, "x", x, "like", like);
}

}  // namespace plimsoll::backend::ops
