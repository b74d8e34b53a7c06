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

// out = x m, or out + x m, row by row. m: column by column, if it says so.
template <typename Number, typename Gemm>
void call(Gemm gemm, const Rows& x, const Tensor& m, bool m_by_column, const Rows& out, bool adding) {
  int width = m.size(1), rows = x.count, inner = m.size(0);
  int step_m = m.stride(m_by_column ? 1 : 0), step_x = x.all.stride(0), step_out = out.all.stride(0);
  Number one = 1, beta = adding;
  gemm(m_by_column ? "T" : "N", "N", &width, &rows, &inner, &one, m.const_data_ptr<Number>(), &step_m, x.data<Number>(), &step_x,
       &beta, out.data<Number>(), &step_out);
}

inline void multiply(const Rows& x, const Tensor& m, const Rows& out, bool adding = false) {
  bool by_column = !in_order(m);
  if (has_blas(m) && in_order(x.all) && in_order(out.all) && in_order(m, by_column) && x.count > 0) {
    if (m.scalar_type() == at::kFloat) return call<float>(sgemm_, x, m, by_column, out, adding);
    return call<double>(dgemm_, x, m, by_column, out, adding);
  }
  auto to = out.alone();
  if (adding) to.addmm_(x.alone(), m);
  else at::mm_out(to, x.alone(), m);
}

// total = a^T b, or total + a^T b
template <typename Number, typename Gemm>
void call_outer(Gemm gemm, const Rows& a, const Rows& b, const Tensor& total, bool adding) {
  int width = b.all.size(1), height = a.all.size(1), rows = a.count;
  int step_a = a.all.stride(0), step_b = b.all.stride(0);
  Number one = 1, beta = adding;
  gemm("N", "T", &width, &height, &rows, &one, b.data<Number>(), &step_b, a.data<Number>(), &step_a, &beta,
       total.mutable_data_ptr<Number>(), &width);
}

// Adds a^T b to a total, or makes it.
inline void add_outer(Tensor& total, const Rows& a, const Rows& b) {
  bool adding = total.defined();
  if (has_blas(a.all) && in_order(a.all) && in_order(b.all) && a.count > 0 && b.all.size(1) > 0) {
    if (!adding) total = at::empty({a.all.size(1), b.all.size(1)}, a.all.options());
    if (a.all.scalar_type() == at::kFloat) return call_outer<float>(sgemm_, a, b, total, adding);
    return call_outer<double>(dgemm_, a, b, total, adding);
  }
  if (adding) total.addmm_(a.alone().t(), b.alone());
  else total = at::mm(a.alone().t(), b.alone());
}

template <typename Number>
void call_sum(const Rows& rows, Number* total) {
  auto step = rows.all.stride(0), width = rows.all.size(1);
  for (auto* row = rows.data<Number>(); row < rows.data<Number>() + rows.count * step; row += step)
    for (int64_t i = 0; i < width; ++i) total[i] += row[i];
}

// Adds rows to a total, or makes it.
inline void add_sum(Tensor& total, const Rows& rows) {
  if (has_blas(rows.all) && in_order(rows.all) && rows.count < 64) {  // of more, torch's sum is more exact
    if (!total.defined()) total = at::zeros({rows.all.size(1)}, rows.all.options());
    if (rows.all.scalar_type() == at::kFloat) return call_sum(rows, total.mutable_data_ptr<float>());
    return call_sum(rows, total.mutable_data_ptr<double>());
  }
  if (total.defined()) total.add_(rows.alone().sum(0));
  else total = rows.alone().sum(0);
}

// One row in all rows.
inline void fill(const Rows& out, const Tensor& row) {
  if (!out.all.is_cpu() || !in_order(out.all) || !row.is_contiguous()) return void(out.alone().copy_(row));
  auto size = row.numel() * row.element_size(), step = out.all.stride(0) * row.element_size();
  auto* to = static_cast<char*>(out.all.mutable_data_ptr()) + out.start * step;
  for (int64_t i = 0; i < out.count; ++i) std::memcpy(to + i * step, row.const_data_ptr(), size);
}

}  // namespace treestack
