// SPDX-License-Identifier: Apache-2.0
// Convolutions, pools, attention and rotations.

#include "kernels/convolve_coded.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear_integer.hpp"

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/op_table.hpp"
#include <optional>

namespace weft::kernels::testing_ops::rows {

struct Convolution {
  const char* name;
  Window window;
  std::size_t out;
};
static Convolution conv(const char* name, std::size_t channels, Window::Extents in, std::size_t out,
                        Window::Extents kernel, Window::Extents stride = {1, 1, 1}, Window::Extents padding = {0, 0, 0},
                        Window::Extents dilation = {1, 1, 1}, std::size_t groups = 1) {
  Window w;
  w.channels = channels, w.groups = groups, w.in = in, w.kernel = kernel, w.stride = stride, w.padding = padding;
  w.dilation = dilation;
  for (std::size_t a = 0; a < 3; ++a)
    w.out[a] = (in[a] + 2 * padding[a] - (kernel[a] - 1) * dilation[a] - 1) / stride[a] + 1;
  return {name, w, out};
}
static std::vector<Convolution> convolutions(const Table& t) {
  std::vector<Convolution> all = {
      conv("one of everything", 1, {1, 1, 1}, 1, {1, 1, 1}),
      conv("a row", 3, {1, 1, 19}, 5, {1, 1, 4}, {1, 1, 1}, {0, 0, 2}),
      conv("pointwise", 70, {1, 3, 4}, 33, {1, 1, 1}),
      conv("more than a chunk of columns and outputs", 9, {1, 4, 4}, 70, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      conv("strides", 5, {1, 7, 8}, 20, {1, 3, 3}, {1, 2, 3}, {0, 1, 1}),
      conv("dilated, with strides", 3, {1, 12, 9}, 18, {1, 3, 2}, {1, 2, 2}, {0, 2, 1}, {1, 3, 4}),
      conv("a volume with strides", 2, {7, 4, 5}, 4, {3, 3, 3}, {2, 1, 2}, {1, 1, 2}, {1, 1, 1}),
      conv("three odd groups", 6, {1, 5, 6}, 21, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 3),
      conv("depthwise", 19, {1, 4, 5}, 19, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 19),
      conv("strides that leave elements out", 3, {1, 9, 10}, 5, {1, 2, 3}, {1, 4, 5}, {0, 3, 4})};
  if (!t.is_broad()) return all;
  for (const Convolution& each :
       {conv("a long row", 2, {1, 1, 301}, 17, {1, 1, 7}, {1, 1, 1}, {0, 0, 3}, {1, 1, 2}),
        conv("without padding", 4, {1, 9, 11}, 16, {1, 3, 3}),
        conv("pointwise, padded", 3, {1, 4, 5}, 7, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}),
        conv("same size", 16, {1, 14, 13}, 32, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
        conv("three chunks of outputs", 9, {1, 8, 8}, 131, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
        conv("a stride of rows alone", 2, {1, 12, 40}, 6, {1, 3, 5}, {1, 2, 1}, {0, 2, 2}),
        conv("a stride beyond the kernel", 2, {1, 11, 11}, 3, {1, 2, 2}, {1, 4, 3}),
        conv("dilated", 3, {1, 12, 15}, 18, {1, 3, 2}, {1, 1, 1}, {0, 2, 1}, {1, 3, 4}),
        conv("a volume", 3, {5, 6, 7}, 10, {3, 2, 3}, {1, 1, 1}, {1, 0, 1}),
        conv("two groups of a panel", 6, {1, 7, 9}, 32, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2),
        conv("groups and strides", 8, {1, 7, 9}, 12, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 4),
        conv("depthwise, doubled", 7, {1, 8, 10}, 14, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 7),
        conv("padding beyond what is left out", 3, {1, 13, 14}, 5, {1, 2, 3}, {1, 4, 5}, {0, 5, 7}),
        conv("pointwise with strides", 18, {1, 9, 10}, 7, {1, 1, 1}, {1, 2, 3}, {0, 1, 0}),
        conv("strides and two chunks of outputs", 3, {1, 9, 40}, 130, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}),
        conv("depthwise with strides", 17, {1, 9, 35}, 17, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 17),
        conv("a stride longer than the row", 2, {1, 3, 3}, 4, {1, 3, 2}, {1, 9, 8}, {0, 1, 1})})
    all.push_back(each);
  all.push_back(conv("a rest that no window reaches", 4, {1, 9, 9}, 6, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 2, 2}));
  all.back().window.out[2] -= 1;  // what output_padding does
  return all;
}

/// make(operands, convolution, weight) -> Case: float32 of each shape, every stored type of one, two types of each.
template <class Make>
void convolve(Table& t, const Make& make) {
  std::size_t turn = 0;
  const auto stored = [&](Operands& o, const Convolution& c, const Encoding& encoding, Activations activations) {
    Case made = make(o, c, o.weight(encoding, c.out, c.window.columns(), activations, true));
    made.name += std::string(", ") + c.name + ", " + to_string(encoding) + ", activations " +
                 std::string(weft::name(activations));
    made.as_graph = made.as_graph && ++turn % 4 == 0;  // each compiles shaders of its own
    return made;
  };
  t.each(convolutions(t), [&](Operands& o, const Convolution& c) {
    Case made = make(o, c, ConstPanels(o.finite_panels(c.out, c.window.columns())));
    made.name += std::string(", ") + c.name;
    return made;
  });
  for (const Encoding& encoding : {Encoding(Dtype::uint8, Granularity::channel), Encoding(Dtype::float64)})
    t.each(convolutions(t),
           [&](Operands& o, const Convolution& c) { return stored(o, c, encoding, Activations::int8); });
  const Convolution one = conv("stored", 5, {1, 5, 6}, 20, {1, 3, 3}, {1, 1, 1}, {0, 1, 1});
  for (const Encoding& encoding : t.is_broad() ? testing_coded::all_encodings() : testing_coded::device_encodings())
    for (const Activations activations : {Activations::int8, Activations::float32, Activations::int8_row})
      if (activations == Activations::float32 || has_integer_kernel(encoding.dtype))
        t.one(false, [&](Operands& o) { return stored(o, one, encoding, activations); });
}
void convolve(Table& t) {
  std::size_t turn = 0;
  convolve(t, [&](Operands& o, const Convolution& c, const ConstWeight& w) {
    const bool is_whole = turn++ % 2 == 0;
    const std::size_t results = c.out * c.window.positions();
    const float* const bias = is_whole ? o.values(c.out) : nullptr;
    const MatrixView x = o.matrix(2, c.window.image()), z = is_whole ? o.matrix(2, results) : MatrixView();
    const auto activation = is_whole ? Activation::relu : Activation::linear;
    float* const workspace = o.workspace(convolve_workspace(c.window, c.out));
    return o.make("", ops::Convolve{c.window, w, bias, x, activation, z, o.matrix(2, results), workspace});
  });
}
void convolve_transposed(Table& t) {
  std::size_t turn = 0;
  convolve(t, [&](Operands& o, const Convolution& c, const ConstWeight& w) {
    const bool is_whole = turn++ % 2 == 0;
    const float* const bias = is_whole ? o.values(c.window.channels) : nullptr;
    const MatrixView x = o.matrix(2, c.out * c.window.positions()), y = o.matrix(2, c.window.image());
    const auto activation = is_whole ? Activation::relu : Activation::linear;
    float* const workspace = o.workspace(convolve_workspace(c.window, c.out));
    return o.make("", ops::ConvolveTransposed{c.window, w, bias, x, activation, {}, y, workspace});
  });
}
void convolve_outer(Table& t) {
  t.each(convolutions(t), [](Operands& o, const Convolution& c) {
    const MatrixView dy = o.matrix(2, c.out * c.window.positions()), x = o.matrix(2, c.window.image());
    const Panels dw = o.sums(c.out, c.window.columns());
    float* const workspace = o.workspace(convolve_workspace(c.window, c.out));
    return o.make(std::string(", ") + c.name, ops::ConvolveOuter{c.window, dy, x, dw, workspace});
  });
}

static Pool strided(Window::Extents in, Window::Extents kernel, Window::Extents stride,
                    Window::Extents padding = {0, 0, 0}, Window::Extents dilation = {1, 1, 1}) {
  Pool pool;
  pool.window = conv("", 3, in, 1, kernel, stride, padding, dilation).window;
  return pool;
}
static Pool adaptive(Window::Extents in, Window::Extents out) {
  Pool pool;
  pool.is_adaptive = true;
  pool.window.channels = 3, pool.window.in = in, pool.window.out = out;
  return pool;
}
/// make(operands, pool, windows) -> Case.
template <class Make>
void pools(Table& t, const Make& make) {
  Pool rounded_up = strided({1, 8, 10}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1});
  ++rounded_up.window.out[2];
  std::vector<Pool> all = {strided({1, 8, 8}, {1, 2, 2}, {1, 2, 2}),
                           strided({1, 5, 131}, {1, 2, 2}, {1, 2, 2}),
                           strided({1, 9, 11}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}),
                           strided({1, 9, 12}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
                           strided({1, 28, 28}, {1, 2, 2}, {1, 2, 2}),
                           strided({1, 13, 37}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}),
                           strided({1, 9, 40}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
                           strided({1, 20, 13}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, {1, 2, 3}),
                           strided({1, 20, 21}, {1, 2, 4}, {1, 3, 5}, {0, 1, 2}),
                           strided({1, 1, 71}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}),
                           strided({6, 7, 8}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}),
                           rounded_up,
                           adaptive({1, 10, 11}, {1, 3, 4}),
                           adaptive({4, 6, 5}, {1, 1, 1}),
                           adaptive({1, 3, 5}, {1, 4, 7})};
  for (const bool counts_padding : {false, true}) {
    for (Pool& pool : all) pool.counts_padding = counts_padding;
    t.each(all, [&](Operands& o, const Pool& pool) {
      Case made = make(o, pool, pool.window.channels * pool.window.positions());
      made.name += " of " + std::to_string(pool.window.in[1]) + " x " + std::to_string(pool.window.in[2]);
      return made;
    });
  }
}
void max_pool(Table& t) {
  for (const bool wants_index : {false, true})
    pools(t, [&](Operands& o, const Pool& pool, std::size_t windows) {
      const MatrixView x = o.matrix(2, pool.window.image()), y = o.matrix(2, windows);
      for (std::size_t i = 0; i < x.cols; ++i) x.row(0)[i] = std::round(2 * x.row(0)[i]);  // many are equal
      return o.make("", ops::MaxPool{pool, x, y, wants_index ? o.matrix(2, windows) : MatrixView()});
    });
}
void max_pool_backward(Table& t) {
  pools(t, [](Operands& o, const Pool& pool, std::size_t windows) {
    const MatrixView x = o.matrix(2, pool.window.image()), y = o.matrix(2, windows), index = o.matrix(2, windows);
    const FlushSubnormals flush;
    kernels::max_pool(pool, x, y, index);
    return o.make("", ops::MaxPoolBackward{pool, index, y, x});
  });
}
void avg_pool(Table& t) {
  pools(t, [](Operands& o, const Pool& pool, std::size_t windows) {
    const MatrixView x = o.matrix(2, pool.window.image());
    return o.make("", ops::AvgPool{pool, x, o.matrix(2, windows)});
  });
}
void avg_pool_backward(Table& t) {
  pools(t, [](Operands& o, const Pool& pool, std::size_t windows) {
    const MatrixView dy = o.matrix(2, windows);
    return o.make("", ops::AvgPoolBackward{pool, dy, o.matrix(2, pool.window.image())});
  });
}

static std::string text(const AttentionShape& s) {
  return ", " + std::to_string(s.tokens) + " tokens, heads " + std::to_string(s.heads) + "/" +
         std::to_string(s.kv_heads) + " of " + std::to_string(s.head_dim) + ", context " + std::to_string(s.context) +
         ", window " + std::to_string(s.window) + (s.causal ? ", causal" : "") +
         (s.has_mask() ? ", mask " + std::to_string(s.mask.head) + "/" + std::to_string(s.mask.token) + "/" +
                             std::to_string(s.mask.key)
                       : "");
}
/// Operands that both directions read, and the results of forward.
struct Attended {
  Attended(Operands& o, const AttentionShape& s, std::uint64_t position)
      : width(s.tokens * s.heads * s.head_dim),
        keys(s.tokens * s.kv_heads * s.head_dim),
        size(attention_state_size(s)) {
    const MatrixView state = rows(o, s.context ? size : 0);
    for (std::size_t b = 0; b < state.rows; ++b) {  // rings of numbers, at this position
      const std::uint64_t at = position + 3 * b;
      state.row(b)[0] = static_cast<float>(at & 0xffffffu), state.row(b)[1] = static_cast<float>(at >> 24);
    }
    from = {rows(o, width), rows(o, keys), rows(o, keys), state, mask(o, s)};
    y = rows(o, width), statistics = rows(o, attention_statistics_size(s)), next = rows(o, s.context ? size : 0);
    workspace = o.workspace(attention_workspace_size(s));
  }
  /// Numbers, of which some hide their keys; the first key, and what a token of its own numbers sees, are hidden whole.
  static MatrixView mask(Operands& o, const AttentionShape& s) {
    const MatrixView all = rows(o, attention_mask_size(s));
    for (std::size_t b = 0; b < all.rows; ++b)
      for (std::size_t head = 0; head < s.heads; ++head)
        for (std::size_t t = 0; t < s.tokens; ++t)
          for (std::size_t j = 0; j < s.tokens; ++j)
            if (j == 0 || (s.mask.token != 0 && t == 1) || (b + 3 * j) % 4 == 0)
              all.row(b)[head * s.mask.head + t * s.mask.token + j * s.mask.key] =
                  j % 2 ? -1e30f : -std::numeric_limits<float>::infinity();
    return all;
  }
  static MatrixView rows(Operands& o, std::size_t width) { return width ? o.matrix(2, width) : MatrixView(); }

  std::size_t width, keys, size;
  AttentionOperands from;
  MatrixView y, statistics, next;
  float* workspace;
};
/// make(operands, shape, attended) -> Case; each third one from `first` on, or all.
template <class Make>
void attend(Table& t, const Make& make, std::optional<std::size_t> first = std::nullopt) {
  std::size_t turn = first.value_or(0);
  std::vector<AttentionShape> all = {{1, 1, 1, 1, 0, 0, false, 1.0f},
                                     {7, 2, 1, 5, 0, 0, false, 0.5f},
                                     {9, 3, 3, 16, 0, 0, true, 0.25f},
                                     {70, 2, 2, 20, 0, 0, true, 0.3f},
                                     {67, 4, 2, 8, 0, 9, false, 0.7f},
                                     {40, 2, 1, 70, 0, 5, true, 0.1f},
                                     {1, 4, 2, 12, 20, 0, true, 0.3f},
                                     {5, 4, 4, 33, 70, 0, true, 0.2f},
                                     {3, 6, 2, 24, 33, 10, true, 0.3f},
                                     {40, 2, 1, 18, 16, 0, true, 0.3f},
                                     {2, 1, 1, 300, 8, 0, true, 0.05f},
                                     {6, 3, 1, 4, 130, 0, true, 1.0f},
                                     {9, 2, 1, 20, 0, 4, true, 0.3f, 2.5f},
                                     {3, 4, 2, 16, 40, 0, true, 0.3f, 0.75f},
                                     {9, 3, 3, 16, 0, 0, false, 0.25f, 0, {0, 0, 1}},
                                     {70, 2, 1, 20, 0, 0, true, 0.3f, 0, {0, 0, 3}},
                                     {67, 2, 2, 8, 0, 9, false, 0.7f, 1.5f, {0, 70, 1}},
                                     {5, 4, 2, 12, 0, 0, false, 0.3f, 0, {5, 25, 1}}};
  if (t.is_broad())
    for (const AttentionShape& s :
         std::initializer_list<AttentionShape>{{130, 1, 1, 32, 0, 0, true, 0.18f},
                                               {66, 3, 1, 40, 0, 0, true, 0.2f, 0, {66, 200, 1}},
                                               {150, 2, 1, 8, 0, 65, true, 0.35f},
                                               {96, 1, 1, 130, 0, 0, false, 0.1f},
                                               {48, 2, 1, 17, 16, 0, true, 0.24f},
                                               {100, 3, 3, 33, 64, 0, true, 0.2f},
                                               {36, 8, 1, 64, 300, 0, true, 0.125f},
                                               {35, 20, 1, 4, 17, 17, true, 0.5f}})
      all.push_back(s);
  for (const std::uint64_t position :
       {std::uint64_t{0}, (std::uint64_t{1} << 24) - 1, std::uint64_t{197}, (std::uint64_t{5} << 24) + 77})
    for (const AttentionShape& shape : all)
      if ((position == 0 || shape.context != 0) && (!first || turn++ % 3 == 0))
        for (const bool special : {false, true})
          t.one(special, [&](Operands& o) {
            Case made = make(o, shape, Attended(o, shape, position));
            made.name += text(shape) + ", at " + std::to_string(position);
            return made;
          });
}
void attention(Table& t) {
  attend(t, [](Operands& o, const AttentionShape& shape, const Attended& a) {
    return o.make("", ops::Attention{shape, a.from, a.y, a.statistics, a.next, a.workspace}, a.next.data,
                  a.from.state.data);
  });
}
void attention_backward(Table& t) {
  // The error of the state known; unknown; neither known nor wanted.
  for (const int known : {2, 1, 0})
    attend(
        t,
        [&](Operands& o, const AttentionShape& shape, const Attended& a) {
          const FlushSubnormals flush;
          kernels::attention(shape, a.from, a.y, a.statistics, a.next, a.workspace);
          const std::size_t size = shape.context ? a.size : 0;
          const MatrixView dnext = known == 2 ? Attended::rows(o, size) : MatrixView(),
                           dstate = known ? Attended::rows(o, size) : MatrixView(),
                           dmask = known ? Attended::rows(o, attention_mask_size(shape)) : MatrixView();
          const AttentionGradients to{o.matrix(2, a.width),
                                      dnext,
                                      o.matrix(2, a.width),
                                      o.matrix(2, a.keys),
                                      o.matrix(2, a.keys),
                                      dstate,
                                      dmask};
          return o.make("", ops::AttentionBackward{shape, a.from, a.y, a.statistics, to, a.workspace});
        },
        known == 2 && t.is_broad() ? std::nullopt : std::optional<std::size_t>(known));
}

struct Turn {
  RopeSettings settings;
  bool has_state, transposed;
  double gain = 1;
};
void rope(Table& t) {
  std::vector<Turn> all;
  for (const std::size_t n : {2, 6, 34, 128})
    for (const RopePairs pairs : {RopePairs::half, RopePairs::interleaved})
      for (const int variant : {0, 1, 2, 3}) {
        RopeSettings settings;
        settings.head_dim = n, settings.pairs = pairs;
        all.push_back({settings, (variant & 1) != 0, (variant & 2) != 0});
        if (n != 34) continue;
        settings.dims = 12, settings.divisors = {1, 1, 1.25, 3, 8, 8};
        all.push_back({settings, (variant & 1) != 0, (variant & 2) != 0, 1.1386294361119891});
      }
  t.each(all, [](Operands& o, const Turn& turn) {
    constexpr std::size_t kTokens = 5, kHeads = 3;
    const std::size_t n = turn.settings.head_dim, width = kTokens * kHeads * n;
    // Interleaved ones find a table of the first positions, of all that a call without a state asks for.
    const std::size_t positions = turn.settings.pairs == RopePairs::interleaved ? kTokens : 0;
    Rope rope{n,        turn.settings.pairs, o.words(rope_turns(turn.settings)), nullptr, positions, turn.settings.dims,
              turn.gain};
    const std::size_t row = 2 * rope.dims();
    std::vector<float> table(positions * row);
    for (std::size_t p = 0; p < positions; ++p) rope_row(rope, p, table.data() + p * row);
    if (positions) rope.table = o.values_of(table);
    const MatrixView state =
        turn.has_state ? o.matrix_of(4, 2, {0, 0, 16777215, 0, 12345, 677, 3.5f, -1}) : MatrixView{nullptr, 4, 2, 2};
    const MatrixView x = o.matrix(4, width), y = o.matrix(4, width);
    const ops::Rope op{rope, kTokens, x, state, turn.transposed, y, o.workspace(2 * n)};
    return o.make(" of " + std::to_string(n), op, y.data, x.data);
  });
}

}  // namespace weft::kernels::testing_ops::rows
