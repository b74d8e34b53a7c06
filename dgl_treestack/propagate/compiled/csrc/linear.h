// The linear maps of operators: forward, gradient of x, gradients of weight and bias; and the memory of their results.
//
// Most products have few rows. The BLAS that torch is linked to computes them, because the overhead of a torch call exceeds the
// time of such a product. On other devices, for other dtypes and without that BLAS, torch computes them.

#pragma once

#include <ATen/ATen.h>

#include <bit>
#include <cstring>
#include <numeric>

// On little-endian machines a BLAS with 32-bit integers can read these 64-bit ones.
// Without direct calls a step takes 1.13 (Tree-SMU), 1.19 (Tree-LSTM) and 1.34 (Tree-RNN) times as long at batch 32,
// and 0.95, 0.99 and 1.12 times at 1,024. torch does not export its own cpublas::gemm; it does export these.
extern "C" {
__attribute__((weak)) void sgemm_(const char*, const char*, const int64_t*, const int64_t*, const int64_t*, const float*,
                                  const float*, const int64_t*, const float*, const int64_t*, const float*, float*,
                                  const int64_t*);
__attribute__((weak)) void dgemm_(const char*, const char*, const int64_t*, const int64_t*, const int64_t*, const double*,
                                  const double*, const int64_t*, const double*, const int64_t*, const double*, double*,
                                  const int64_t*);
}

namespace treestack {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Indices = std::vector<size_t>;
using Shape = std::vector<int64_t>;
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

// Allocates tensors one after the other in a part of a block, until it is full.
class Arena {
 public:
  Arena(const Tensor& block, int64_t start, int64_t stop) : block_(block), used_(start), stop_(stop) {}

  static int64_t aligned(int64_t numbers) { return (numbers + 15) / 16 * 16; }

  Tensor take(at::IntArrayRef shape) {
    auto numbers = aligned(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    if (used_ + numbers > stop_) return at::empty(shape, block_.options());
    at::DimVector strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
    auto tensor = block_.as_strided(shape, strides, block_.storage_offset() + used_);
    used_ += numbers;
    return tensor;
  }

 private:
  const Tensor& block_;
  int64_t used_, stop_;
};

// Consecutive rows of a matrix.
struct Rows {
  const Tensor& all;  // must outlive the rows
  int64_t start, count;

  Rows(const Tensor& matrix) : Rows(matrix, 0, matrix.size(0)) {}
  Rows(const Tensor& matrix, int64_t start, int64_t count) : all(matrix), start(start), count(count) {}

  Tensor tensor() const { return count == all.size(0) ? all : all.narrow(0, start, count); }

  // Whether BLAS can read them: the elements of a row are contiguous.
  bool blas_takes() const {
    auto type = all.scalar_type();
    bool has_blas = type == at::kFloat ? sgemm_ != nullptr : type == at::kDouble && dgemm_ != nullptr;
    bool readable = has_blas && std::endian::native == std::endian::little;
    return readable && all.is_cpu() && count > 0 && all.stride(1) == 1 && all.stride(0) >= all.size(1);
  }

  template <typename Number>
  Number* data() const { return all.mutable_data_ptr<Number>() + start * all.stride(0); }
};

// BLAS stores matrices by column, and so computes the transposed product: b comes before a.
template <typename Number, typename Gemm>
void call(Gemm gemm, const Rows& a, bool transpose_a, const Rows& b, bool transpose_b, const Rows& out, bool adding) {
  int64_t rows = out.count, width = out.all.size(1), inner = transpose_a ? a.count : a.all.size(1);
  int64_t step_a = a.all.stride(0), step_b = b.all.stride(0), step_out = out.all.stride(0);
  Number alpha = 1, beta = adding;
  gemm(transpose_b ? "T" : "N", transpose_a ? "T" : "N", &width, &rows, &inner, &alpha, b.data<Number>(), &step_b,
       a.data<Number>(), &step_a, &beta, out.data<Number>(), &step_out);
}

// out = a b, or out += a b if adding, for an inner dimension of one or two: a call of BLAS takes longer.
template <typename Number>
void narrow(const Rows& a, bool transpose_a, const Rows& b, const Rows& out, bool adding) {
  int64_t inner = b.count, width = out.all.size(1), step_a = a.all.stride(0);
  auto *left = a.data<Number>(), *right = b.data<Number>(), *to = out.data<Number>();
  for (int64_t i = 0; i < out.count; ++i, to += out.all.stride(0))
    for (int64_t k = 0; k < inner; ++k) {
      auto factor = transpose_a ? left[k * step_a + i] : left[i * step_a + k];
      auto* row = right + k * b.all.stride(0);
      if (adding || k) for (int64_t j = 0; j < width; ++j) to[j] += factor * row[j];
      else for (int64_t j = 0; j < width; ++j) to[j] = factor * row[j];
    }
}

// out = a b, or out += a b if adding.
inline void product(const Rows& a, bool transpose_a, const Rows& b, bool transpose_b, const Rows& out, bool adding) {
  if (a.blas_takes() && b.blas_takes() && out.blas_takes()) {
    bool few = !transpose_b && ((!transpose_a && b.count <= 2) || (transpose_a && out.count <= 2 && b.count < 16));
    if (out.all.scalar_type() == at::kFloat)
      return few ? narrow<float>(a, transpose_a, b, out, adding) : call<float>(sgemm_, a, transpose_a, b, transpose_b, out, adding);
    return few ? narrow<double>(a, transpose_a, b, out, adding) : call<double>(dgemm_, a, transpose_a, b, transpose_b, out, adding);
  }
  auto left = transpose_a ? a.tensor().t() : a.tensor(), right = transpose_b ? b.tensor().t() : b.tensor();
  auto result = out.tensor();
  if (adding) result.addmm_(left, right);
  else at::mm_out(result, left, right);
}

template <typename Number>
void add_rows_to(Number* total, const Rows& rows) {
  auto step = rows.all.stride(0), width = rows.all.size(1);
  auto* row = rows.data<Number>();
  for (int64_t i = 0; i < rows.count; ++i, row += step)
    for (int64_t j = 0; j < width; ++j) total[j] += row[j];
}

// Adds the sum of rows to total. For many rows torch's sum is more exact. Few rows by hand save 2 to 7 % of a step at batch
// 32, and cost 2 to 3 % at 1,024.
inline void sum(const Rows& rows, Tensor& total) {
  bool few = rows.blas_takes() && rows.count < 64;
  if (!few) return void(total.add_(rows.tensor().sum(0)));
  if (total.scalar_type() == at::kFloat) add_rows_to(total.mutable_data_ptr<float>(), rows);
  else add_rows_to(total.mutable_data_ptr<double>(), rows);
}

template <typename Number>
void add_each_at(const Tensor& total, const Tensor& indices, const Tensor& rows) {
  auto width = rows.numel() / rows.size(0);
  auto *to = total.mutable_data_ptr<Number>(), *row = rows.mutable_data_ptr<Number>();
  for (auto *index = indices.const_data_ptr<int64_t>(), *end = index + indices.size(0); index != end; ++index)
    for (auto *sum = to + *index * width, *last = row + width; row != last;) *sum++ += *row++;
}

// Adds every row to the row of total at its index. Few rows take less time than a call of torch, many rows more.
// A step takes 0.93 of the time at batch 32 and 0.99 at 1,024; with the loop for any number of rows it would be 1.02 to
// 1.09 times as long at 1,024, hence the limit.
inline void add_at(const Tensor& total, const Tensor& indices, const Tensor& rows) {
  bool contiguous = total.is_cpu() && total.is_contiguous() && rows.is_contiguous();
  bool few = rows.size(0) < 128 && rows.numel() > 0 && contiguous && rows.scalar_type() == total.scalar_type();
  if (few && total.scalar_type() == at::kFloat) add_each_at<float>(total, indices, rows);
  else if (few && total.scalar_type() == at::kDouble) add_each_at<double>(total, indices, rows);
  else total.index_add_(0, indices, rows);
}

// Writes one row into all rows: a bias. By torch a step takes 1.04 to 1.09 times as long at batch 32, 0.96 to 1.01 at 1,024.
inline void fill(const Rows& out, const Tensor& row) {
  bool copies = row.is_cpu() && row.is_contiguous() && row.scalar_type() == out.all.scalar_type();
  if (!copies || !out.blas_takes() || row.numel() != out.all.size(1)) return void(out.tensor().copy_(row));
  auto size = row.numel() * row.element_size(), step = out.all.stride(0) * row.element_size();
  auto* to = static_cast<char*>(out.all.mutable_data_ptr()) + out.start * step;
  for (int64_t i = 0; i < out.count; ++i) std::memcpy(to + i * step, row.const_data_ptr(), size);
}

// A weight of at least `weight` elements defers the gradients of few rows, at most `rows` of them; see `Options` in Python.
struct Deferral {
  int64_t weight, rows;
};

// A bias is no last row of its weight. In an earlier engine it was, for more than 64 rows: 1.13 to 1.15 times as fast
// at batch 1,024, but nothing at 32, where the copies of x cost what they save.
// One operator's map: weight (out, in) and bias (out,), either may be absent.
class Map {
 public:
  Map(Tensor weight, Tensor bias, Deferral deferral)
      : weight_(std::move(weight)), bias_(std::move(bias)), deferral_(deferral) {
    bool both = weight_.defined() && bias_.defined();
    TORCH_CHECK(!both || weight_.options().type_equal(bias_.options()), "weight and bias are of different types");
  }

  void forward(const Rows& x, const Rows& y) const {
    if (bias_.defined()) fill(y, bias_);
    if (weight_.defined()) product(x, false, weight_, true, y, bias_.defined());
  }

  void backward(const Rows& gradient_y, const Rows& gradient_x) const {
    product(gradient_y, false, weight_, false, gradient_x, false);
  }

  // Adds to the gradients of weight and bias. Few rows of a large weight are deferred: a product reads and writes it whole.
  void accumulate(const Rows& x, const Rows& gradient_y) {
    if (bias_.defined()) sum(gradient_y, bias_gradient);
    if (!weight_.defined()) return;
    if (x.count >= 64 || weight_.numel() < deferral_.weight) return product(gradient_y, true, x, false, weight_gradient, true);
    deferred_x_.push_back(x.tensor().clone());  // the memory of both may be reused before they are read
    deferred_y_.push_back(gradient_y.tensor().clone());
    deferred_rows_ += x.count;
    if (deferred_rows_ > deferral_.rows) compute_deferred();
  }

  // Of accumulating these rows: the numbers that a product reads for each.
  int64_t cost(const std::vector<std::pair<Rows, Rows>>& products) const {
    int64_t rows = 0;
    for (auto& [x, gradient_y] : products) rows += x.count;
    return rows * (weight_.defined() ? weight_.numel() : 1);
  }

  // Computes the deferred gradients.
  void compute_deferred() {
    if (!deferred_x_.empty()) product(at::cat(deferred_y_), true, at::cat(deferred_x_), false, weight_gradient, true);
    deferred_x_.clear();
    deferred_y_.clear();
    deferred_rows_ = 0;
  }

  int64_t deferred_rows() const { return deferred_rows_; }

  Tensor weight_gradient, bias_gradient;  // rows of those of all operators, to which the map adds

 private:
  Tensor weight_, bias_;
  Deferral deferral_;
  Tensors deferred_x_, deferred_y_;
  int64_t deferred_rows_ = 0;
};

}  // namespace treestack
