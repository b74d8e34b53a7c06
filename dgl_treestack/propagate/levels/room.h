// Room for tensors, and their rows.

#pragma once

#include <ATen/ATen.h>

#include <numeric>

namespace treestack {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Places = std::vector<size_t>;
using Shape = std::vector<int64_t>;
using Quiet = at::AutoDispatchBelowADInplaceOrView;  // autograd sees nothing of what is done within

// Tensors out of one.
class Room {
 public:
  explicit Room(Tensor block) : block_(std::move(block)) {}

  Tensor take(int64_t count, const Shape& shape) {
    at::DimVector sizes{count};
    sizes.append(shape.begin(), shape.end());
    at::DimVector strides(sizes.size(), 1);
    for (size_t i = shape.size(); i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
    auto found = block_.as_strided(sizes, strides, block_.storage_offset() + taken_);
    taken_ += aligned(sizes[0] * strides[0]);
    return found;
  }

  void empty() { taken_ = 0; }

  // How many numbers so many rows take up.
  static int64_t needed(int64_t count, const Shape& shape) {
    return aligned(std::accumulate(shape.begin(), shape.end(), count, std::multiplies<>()));
  }

 private:
  static int64_t aligned(int64_t numbers) { return (numbers + 15) / 16 * 16; }

  Tensor block_;
  int64_t taken_ = 0;
};

// A field or x (n, *shape) as its rows (n, width), where it has some.
inline void add_rows(Tensors& list, const Tensor& state) {
  Quiet quiet;
  if (state.dim() != 3) return list.push_back(state);
  for (int64_t i = 0; i < state.size(1); ++i) list.push_back(state.select(1, i));
}

// (n, ..., width) as (n * repeats, width)
inline Tensor flat(const Tensor& x) { return x.dim() == 2 ? x : x.flatten(0, -2); }

}  // namespace treestack
