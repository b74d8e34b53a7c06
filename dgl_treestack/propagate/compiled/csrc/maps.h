// The linear maps of operators: forward, gradient of x, gradients of weight and bias.

#pragma once

#include "blas.h"

namespace treestack {

// One operator's map of a call of `linear`: weight (out, in) and bias (out), either may be absent.
class Map {
 public:
  Map(const Tensor& weight, const Tensor& bias) : weight_(weight), bias_(bias) {
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

  // Adds to the gradients of weight and bias.
  void accumulate(const Rows& x, const Rows& gradient_y) {
    if (weight_.defined()) {
      bool adding = weight_gradient.defined();
      if (!adding) weight_gradient = at::empty_like(weight_);
      product(gradient_y, true, x, false, weight_gradient, adding);
    }
    if (bias_.defined()) sum(gradient_y, bias_gradient);
  }

  Tensor weight_gradient, bias_gradient;

 private:
  Tensor weight_, bias_;
};

}  // namespace treestack
