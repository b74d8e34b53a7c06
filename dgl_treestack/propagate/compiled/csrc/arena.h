// Tensor aliases, and an arena from which the results of linear maps are taken.

#pragma once

#include <ATen/ATen.h>

#include <numeric>

namespace treestack {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Indices = std::vector<size_t>;
using Shape = std::vector<int64_t>;
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

// Tensors cut one after the other from blocks. A block stays when the arena is reset, so that no fresh pages are asked for.
class Arena {
 public:
  explicit Arena(Tensor block) : block_(std::move(block)) {}

  Tensor take(at::IntArrayRef shape) {
    auto numbers = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    auto aligned = (numbers + 15) / 16 * 16;
    if (used_ + aligned > block_.numel()) return at::empty(shape, block_.options());
    at::DimVector strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
    auto tensor = block_.as_strided(shape, strides, block_.storage_offset() + used_);
    used_ += aligned;
    return tensor;
  }

  void reset() { used_ = 0; }

 private:
  Tensor block_;
  int64_t used_ = 0;
};

}  // namespace treestack
