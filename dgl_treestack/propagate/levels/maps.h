// The linear maps of operators, for `native.cpp`.

#pragma once

#include "blas.h"

namespace treestack {

// An operator's map of a unit: weight (out, in) and bias (out), of which there may be none, of one product or of several side
// by side. at_once: gradients are added while their rows are in the cache, and do not wait until the sweep is over; weight and
// bias are one (in + 1, out) then, a copy, but twice as fast for few rows, and x end in a one.
class Map {
 public:
  // weights, biases: their places among the parameters.
  Map(const Tensors& parameters, const Places& weights, const Places& biases, bool at_once)
      : parameters_(parameters), weights_(weights), biases_(biases), at_once_(at_once) {
    Quiet quiet;
    weight_ = side_by_side(weights);
    bias_ = side_by_side(biases);
    bool both = weight_.defined() && bias_.defined();
    TORCH_CHECK(!both || weight_.options().type_equal(bias_.options()), "weight and bias are of different types");
    if (at_once && both) joint_ = at::cat({weight_.t(), bias_.unsqueeze(0)});
  }

  void apply(const Rows& x, const Rows& out) const {
    if (joint_.defined()) return product(x, false, joint_, false, out, false);
    if (bias_.defined()) fill(out, bias_);
    if (weight_.defined()) product(x, false, weight_, true, out, bias_.defined());
  }

  // The gradient of x from that of y, if there is an x; those of weight and bias are kept.
  void back(const Rows& x, const Rows& of_y, const Rows& of_x) {
    if (weight_.defined()) product(of_y, false, weight_, false, of_x, false);
    if (at_once_) return accumulate(x, of_y);
    waiting_.emplace_back(x, of_y);
  }

  // Adds the gradients to those of the parameters, and forgets them.
  void settle(Tensors& gradients) {
    Quiet quiet;
    for (auto& [x, of_y] : waiting_) accumulate(x, of_y);
    waiting_.clear();
    auto of_weight = std::exchange(of_weight_, Tensor()), of_bias = std::exchange(of_bias_, Tensor());
    if (joint_.defined() && of_weight.defined()) {
      of_bias = of_weight[-1].clone();
      of_weight = of_weight.narrow(0, 0, of_weight.size(0) - 1).t();
    }
    deal(gradients, weights_, of_weight);
    deal(gradients, biases_, of_bias);
  }

 private:
  Tensor side_by_side(const Places& places) const {
    if (places.empty()) return Tensor();
    if (places.size() == 1) return parameters_[places[0]];
    Tensors parts;
    for (auto i : places) parts.push_back(parameters_[i]);
    return at::cat(parts);
  }

  void accumulate(const Rows& x, const Rows& of_y) {
    if (joint_.defined()) return add(of_weight_, x, of_y);  // (in + 1, out), the bias's in its last row
    if (weight_.defined()) add(of_weight_, of_y, x);
    if (bias_.defined()) sum(of_y, of_bias_);
  }

  static void add(Tensor& total, const Rows& one, const Rows& other) {
    bool adding = total.defined();
    if (!adding) total = at::empty({one.all.size(1), other.all.size(1)}, one.all.options());
    product(one, true, other, false, total, adding);
  }

  void deal(Tensors& gradients, const Places& places, const Tensor& all) const {
    if (!all.defined()) return;
    int64_t start = 0;
    for (auto i : places) {
      auto width = parameters_[i].size(0);
      auto own = places.size() == 1 ? all : all.narrow(0, start, width);
      start += width;
      auto& gradient = gradients[i];
      gradient = gradient.defined() ? gradient + own : own;
    }
  }

  const Tensors& parameters_;
  const Places &weights_, &biases_;
  bool at_once_;
  Tensor weight_, bias_, joint_, of_weight_, of_bias_;
  std::vector<std::pair<Rows, Rows>> waiting_;
};

}  // namespace treestack
