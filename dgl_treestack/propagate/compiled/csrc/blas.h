// Products for `maps.h`, most of them of a few rows, by the BLAS that torch is linked to: torch's own calls take longer to begin
// than such products take. On other devices, of other numbers, and where torch has no such BLAS, they are torch's.

#pragma once

#include <bit>
#include <cstring>

#include "arena.h"

// Where low bytes come first, integers of 64 bits can be read as such of 32 too, whichever BLAS counts in.
extern "C" {
__attribute__((weak)) void sgemm_(const char*, const char*, const int64_t*, const int64_t*, const int64_t*, const float*,
                                  const float*, const int64_t*, const float*, const int64_t*, const float*, float*,
                                  const int64_t*);
__attribute__((weak)) void dgemm_(const char*, const char*, const int64_t*, const int64_t*, const int64_t*, const double*,
                                  const double*, const int64_t*, const double*, const int64_t*, const double*, double*,
                                  const int64_t*);
}

namespace treestack {

// Rows of a matrix, all or some.
struct Rows {
  Tensor all;
  int64_t start, count;

  Rows(Tensor matrix) : Rows(matrix, 0, matrix.size(0)) {}
  Rows(Tensor matrix, int64_t from, int64_t many) : all(std::move(matrix)), start(from), count(many) {}

  Tensor alone() const { return count == all.size(0) ? all : all.narrow(0, start, count); }

  // Whether BLAS can take them: row by row, the numbers of a row side by side.
  bool plain() const {
    auto type = all.scalar_type();
    bool has_blas = type == at::kFloat ? sgemm_ != nullptr : type == at::kDouble && dgemm_ != nullptr;
    bool readable = has_blas && std::endian::native == std::endian::little;
    return readable && all.is_cpu() && count > 0 && all.stride(1) == 1 && all.stride(0) >= all.size(1);
  }

  template <typename Number>
  Number* data() const { return all.mutable_data_ptr<Number>() + start * all.stride(0); }
};

// BLAS counts by column: to it every matrix is turned, and so the second comes first.
template <typename Number, typename Gemm>
void call(Gemm gemm, const Rows& a, bool a_turned, const Rows& b, bool b_turned, const Rows& out, bool adding) {
  int64_t rows = out.count, width = out.all.size(1), inner = a_turned ? a.count : a.all.size(1);
  int64_t step_a = a.all.stride(0), step_b = b.all.stride(0), step_out = out.all.stride(0);
  Number one = 1, before = adding;
  gemm(b_turned ? "T" : "N", a_turned ? "T" : "N", &width, &rows, &inner, &one, b.data<Number>(), &step_b, a.data<Number>(),
       &step_a, &before, out.data<Number>(), &step_out);
}

// out = a b, or out + a b. turned: to be transposed.
inline void product(const Rows& a, bool a_turned, const Rows& b, bool b_turned, const Rows& out, bool adding) {
  if (a.plain() && b.plain() && out.plain()) {
    if (out.all.scalar_type() == at::kFloat) return call<float>(sgemm_, a, a_turned, b, b_turned, out, adding);
    return call<double>(dgemm_, a, a_turned, b, b_turned, out, adding);
  }
  auto to = out.alone(), one = a_turned ? a.alone().t() : a.alone(), other = b_turned ? b.alone().t() : b.alone();
  if (adding) to.addmm_(one, other);
  else at::mm_out(to, one, other);
}

template <typename Number>
void add_rows_to(Number* total, const Rows& rows) {
  auto step = rows.all.stride(0), width = rows.all.size(1);
  auto* row = rows.data<Number>();
  for (int64_t i = 0; i < rows.count; ++i, row += step)
    for (int64_t j = 0; j < width; ++j) total[j] += row[j];
}

// total = the sum of rows, or total + the sum. Of many rows torch's sum is more exact.
inline void sum(const Rows& rows, Tensor& total) {
  bool few = rows.plain() && rows.count < 64;
  if (!few) return void(total = total.defined() ? total.add_(rows.alone().sum(0)) : rows.alone().sum(0));
  if (!total.defined()) total = at::zeros({rows.all.size(1)}, rows.all.options());
  if (total.scalar_type() == at::kFloat) add_rows_to(total.mutable_data_ptr<float>(), rows);
  else add_rows_to(total.mutable_data_ptr<double>(), rows);
}

template <typename Number>
void add_each_at(const Tensor& total, const Tensor& places, const Tensor& rows) {
  auto width = rows.numel() / rows.size(0);
  auto *to = total.mutable_data_ptr<Number>(), *row = rows.mutable_data_ptr<Number>();
  for (auto *place = places.const_data_ptr<int64_t>(), *end = place + places.size(0); place != end; ++place)
    for (auto *sum = to + *place * width, *last = row + width; row != last;) *sum++ += *row++;
}

// Adds every row to that of total at its place.
inline void add_at(const Tensor& total, const Tensor& places, const Tensor& rows) {
  auto type = total.scalar_type();
  bool plain = total.is_cpu() && total.is_contiguous() && rows.is_contiguous() && rows.scalar_type() == type && rows.numel() > 0;
  if (plain && type == at::kFloat) add_each_at<float>(total, places, rows);
  else if (plain && type == at::kDouble) add_each_at<double>(total, places, rows);
  else total.index_add_(0, places, rows);
}

// One row in all rows.
inline void fill(const Rows& out, const Tensor& row) {
  bool alike = row.is_cpu() && row.is_contiguous() && row.scalar_type() == out.all.scalar_type();
  if (!alike || !out.plain() || row.numel() != out.all.size(1)) return void(out.alone().copy_(row));
  auto size = row.numel() * row.element_size(), step = out.all.stride(0) * row.element_size();
  auto* to = static_cast<char*>(out.all.mutable_data_ptr()) + out.start * step;
  for (int64_t i = 0; i < out.count; ++i) std::memcpy(to + i * step, row.const_data_ptr(), size);
}

}  // namespace treestack
