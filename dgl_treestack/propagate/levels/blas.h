// Products of a few rows, for `maps.h`, by the BLAS that torch is linked to: a call of torch's own takes longer to begin than
// such a product takes. On other devices, and where torch has another BLAS, they are torch's.

#pragma once

#include <cstring>

#include "room.h"

extern "C" {
__attribute__((weak)) void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                                  const int*, const float*, const int*, const float*, float*, const int*);
__attribute__((weak)) void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                                  const int*, const double*, const int*, const double*, double*, const int*);
}

namespace treestack {

// Some rows of a matrix.
struct Rows {
  Tensor all;
  int64_t start, count;

  Tensor alone() const { return count == all.size(0) ? all : all.narrow(0, start, count); }
  template <typename Number>
  Number* data() const { return all.mutable_data_ptr<Number>() + start * all.stride(0); }
};

// Whether the numbers of a matrix lie in memory row by row, or column by column.
inline bool in_order(const Tensor& matrix, bool by_column = false) {
  return matrix.stride(by_column ? 0 : 1) == 1 && matrix.stride(by_column ? 1 : 0) >= matrix.size(by_column ? 0 : 1);
}

inline bool has_blas(const Tensor& like) {
  return like.is_cpu() && (like.scalar_type() == at::kFloat ? sgemm_ != nullptr : like.scalar_type() == at::kDouble && dgemm_);
}

template <typename Number, typename Gemm>
void gemm(Gemm function, const Rows& x, const Tensor& m, const Rows& out, bool adding) {
  bool by_column = !in_order(m);
  int width = m.size(1), rows = x.count, inner = m.size(0);
  int step_m = m.stride(by_column ? 1 : 0), step_x = x.all.stride(0), step_out = out.all.stride(0);
  Number one = 1, beta = adding;
  function(by_column ? "T" : "N", "N", &width, &rows, &inner, &one, m.const_data_ptr<Number>(), &step_m, x.data<Number>(), &step_x,
           &beta, out.data<Number>(), &step_out);
}

// out = x m, or out + x m.
inline void multiply(const Rows& x, const Tensor& m, const Rows& out, bool adding = false) {
  bool fast = has_blas(m) && in_order(x.all) && in_order(out.all) && (in_order(m) || in_order(m, true)) && x.count > 0;
  if (fast && m.scalar_type() == at::kFloat) return gemm<float>(sgemm_, x, m, out, adding);
  if (fast) return gemm<double>(dgemm_, x, m, out, adding);
  auto to = out.alone();
  if (adding) to.addmm_(x.alone(), m);
  else at::mm_out(to, x.alone(), m);
}

// One row in all rows.
inline void fill(const Rows& out, const Tensor& row) {
  if (!out.all.is_cpu() || !in_order(out.all) || !row.is_contiguous()) return void(out.alone().copy_(row));
  auto size = row.numel() * row.element_size(), step = out.all.stride(0) * row.element_size();
  auto* to = static_cast<char*>(out.all.mutable_data_ptr()) + out.start * step;
  for (int64_t i = 0; i < out.count; ++i) std::memcpy(to + i * step, row.const_data_ptr(), size);
}

// All rows below each other.
inline Tensor joined(const std::vector<Rows>& parts) {
  if (parts.size() == 1) return parts[0].alone();
  Tensors all;
  for (auto& part : parts) all.push_back(part.alone());
  return at::cat(all);
}

}  // namespace treestack
