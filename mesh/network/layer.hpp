// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include "kernels/activation.hpp"
#include "kernels/op_stream.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"
#include "kernels/window.hpp"

#include "core/option_row.hpp"
#include "core/philox.hpp"
#include "core/shape.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

struct MadeObserver;
struct ObserverSite;

/// Linear map that a layer computes by a matrix, without the bias: of rows, or of images by a convolution.
struct LinearMap {
  std::uint32_t reads = 0;  // the values that it takes: maps of a layer that take the same ones have one number
  std::optional<kernels::Window> window{};  // of a convolution
  bool is_transposed = false;               // from the windows' values to the image
};

/// Words of a layer inside a container about its own weights. The others are its container's.
struct OwnStorage {
  std::optional<Encoding> encoding;        // of matrices
  std::optional<Activations> activations;  // of their inputs
  std::optional<bool> quantization_aware;
  float rate_scale = 1.0f;  // times the container's
  bool is_frozen = false;   // or the container is
  /// The same of a layer around it, for what it leaves open.
  void inherit(const OwnStorage& outer) noexcept;
};

/// Layout and initial values of a layer's parameter.
struct ParameterSpec {
  std::string name;             // "weight", "bias", "gain"
  std::size_t out = 0, in = 0;  // in == 0: a plain vector of `out`; else a matrix [out, in] stored in panels
  bool decays = true;           // weight decay applies
  /// Fills the row-major values from the layer's own random stream.
  std::function<void(RandomStream&, std::span<float>)> init;
  /// Of a matrix that is a linear map inside the layer.
  std::optional<LinearMap> map{};
  /// Its gradients come by Gradients::add_outer, those of a vector by add_columns, alone, and in one call.
  bool is_outer = false;
  /// Of a layer inside a container.
  OwnStorage own{};

  bool is_matrix() const noexcept { return in != 0; }
  /// Floats it takes in memory, panel padding counted.
  std::size_t stored_size() const noexcept { return is_matrix() ? kernels::panels_size(out, in) : out; }
};

/// The parameters of one layer as the ops take them: number i belongs to `Layer::parameters()[i]`.
struct ConstWeights {
  const kernels::ConstWeight* data = nullptr;
  /// A matrix, in whatever type it is stored.
  const kernels::ConstWeight& matrix(std::size_t i) const noexcept { return data[i]; }
  /// A plain vector, such as a bias: always float32.
  const float* vector(std::size_t i) const noexcept { return static_cast<const float*>(data[i].codes); }
};

/// Gradients of a matrix in one update: an outer product that stays out of memory, or floats.
struct MatrixGradient {
  kernels::OuterProduct product;  // without `dy`: none
  bool is_in_memory = false;
};

/// Gradients of a parameter in one update, row by row: outer products of the errors' rows with the inputs', of a vector
/// the errors' rows alone. By their addresses, which must hold until traces have taken them in.
struct RowGradients {
  kernels::ConstMatrixView dy{}, x{};
};

struct Gradients {
  float* const* data = nullptr;
  MatrixGradient* products = nullptr;  // null: all are in memory
  RowGradients* rows = nullptr;        // not null: what ParameterSpec::is_outer tells of goes there alone
  float* operator[](std::size_t i) const noexcept { return data[i]; }
  /// Adds the errors' outer product with the inputs to matrix `i`. Of one row of moderate numbers, the first to come,
  /// the product is kept by its addresses, which must hold until the weights have moved.
  void add_outer(kernels::OpStream& stream, std::size_t i, const kernels::ConstMatrixView& dy,
                 const kernels::ConstMatrixView& x) const;
  /// Adds the sums of the errors' columns to vector `i`.
  void add_columns(kernels::OpStream& stream, std::size_t i, const kernels::ConstMatrixView& dy) const;
  Gradients from(std::size_t first) const noexcept {
    return {data + first, products ? products + first : nullptr, rows ? rows + first : nullptr};
  }
};

/// One firing of a layer. Rows are sessions (or ticks of a block); every row stands alone.
struct ForwardArgs {
  ConstWeights weights;
  kernels::ConstMatrixView x;      // [rows, in]
  kernels::MatrixView z;           // [rows, out] pre-activation, or data == null when nobody will ask for it
  kernels::MatrixView y;           // [rows, out]
  kernels::MatrixView cache;       // [rows, cache_size()], kept from forward to backward
  kernels::ConstMatrixView state;  // [rows, state_size()] hidden state committed at the last tick
  kernels::MatrixView next_state;  // [rows, state_size()]
  float* workspace = nullptr;      // workspace_size() floats, anything in them before and after
  /// The first so many rows will be learned from: to those is done what only training does (dropout).
  std::size_t training_rows = 0;
  /// The first so many rows read a sample of a learner that they have not read before: what keeps statistics of its
  /// inputs takes these in (running_standardize).
  std::size_t sample_rows = 0;
};

/// The reverse of one firing. `dy` is dLoss/dy; gradients are added to, dx and dstate are written.
struct BackwardArgs {
  ConstWeights weights;
  kernels::ConstMatrixView x, z, y, cache, state;
  kernels::MatrixView dy;                // may be used as scratch
  Gradients gradients;                   // null data: weight gradients are not wanted
  kernels::MatrixView dx;                // data == null: not wanted
  kernels::ConstMatrixView dnext_state;  // dLoss/d next_state, or data == null
  kernels::MatrixView dstate;            // data == null: not wanted
  kernels::MatrixView scratch;           // [rows, scratch_size()], anything in it before and after
  float* workspace = nullptr;            // workspace_size() floats, likewise
};

/// One place among the weights that a layer computes with.
struct WeightSlot {
  static constexpr std::int32_t kOwn = -1;
  std::int32_t owner = kOwn;    // into tied_to()
  std::uint32_t parameter = 0;  // of that owner, or of the layer itself
};

/// Errors that travel back through a layer's hidden state, from tick to tick.
enum class StateErrors : int {
  none,       ///< noise, tallies, places; or the state learns forward: dstate is 0
  gradients,  ///< gradients alone: rules that send displacements give it no target
  any,        ///< gradients, and displacements of target rules
};

/// Layer type: its shapes, its parameters, forward and backward. It knows neither ticks nor devices nor
/// threads: it calls ops on a stream, and never reads through the pointers itself.
/// Holds no state: one object serves every session.
/// @thread const calls from any thread
class Layer {
 public:
  virtual ~Layer() = default;

  /// Values of a row: the volumes of the shapes.
  std::size_t in() const noexcept { return in_; }
  std::size_t out() const noexcept { return out_; }
  /// Shape of a row, row-major, outermost axis first: [features], [tokens, features], [channels, height, width], ...
  const Shape& in_shape() const noexcept { return in_shape_; }
  const Shape& out_shape() const noexcept { return out_shape_; }
  /// Floats a row that forward leaves for backward.
  virtual std::size_t cache_size() const noexcept { return 0; }
  /// Floats a row that backward wants for itself.
  virtual std::size_t scratch_size() const noexcept { return 0; }
  /// Floats that one call of forward or backward wants for itself, however many rows it has.
  virtual std::size_t workspace_size() const noexcept { return 0; }
  /// Not 0: its inputs are indices, whole numbers in [0, vocabulary_size()). The mesh refuses other values at input
  /// ports that it reads; what another layer gives is rounded down, and never past the first or the last.
  virtual std::size_t vocabulary_size() const noexcept { return 0; }
  /// Floats a row of hidden state that persist across ticks.
  virtual std::size_t state_size() const noexcept { return 0; }
  /// True when the hidden state has the derivatives that errors of later ticks meet, or none at all, so that no error
  /// travels back through it: dstate is 0.
  virtual bool learns_forward() const noexcept { return false; }
  /// Errors that its hidden state passes to the tick before.
  virtual StateErrors state_errors() const noexcept {
    return state_size() == 0 || learns_forward() ? StateErrors::none : StateErrors::any;
  }
  /// True when forward on a CPU may be given one memory as state and next_state.
  virtual bool updates_state_in_place() const noexcept { return false; }
  /// Offsets of noise streams in the hidden state, kernels::kNoiseState floats each. A new session gets streams of its
  /// own there, and a reset one keeps them.
  virtual std::vector<std::size_t> noise_states() const { return {}; }
  /// True when forward looks at training_rows.
  virtual bool has_training_mode() const noexcept { return false; }
  /// True when forward looks at sample_rows.
  virtual bool takes_samples() const noexcept { return false; }
  /// True when firing once more for the same input gives another hidden state. False: the state changes with
  /// sample_rows alone, and the layer need not fire in ticks in which nothing new reaches it.
  virtual bool counts_ticks() const noexcept { return state_size() != 0; }
  /// True when it acts on the cells of its sources by what it observes (mesh/runtime/observer.hpp).
  virtual bool is_observer() const noexcept { return false; }
  /// True when its observer asks for the gradient sizes of its sources.
  virtual bool observes_gradients() const noexcept { return false; }
  /// Its observer in a mesh. @pre is_observer
  /// @error sources that cannot be observed so, naming the place in the network file
  virtual Result<MadeObserver> make_observer(const ObserverSite& site) const;
  /// True for an actor of a user's own.
  virtual bool handles_mail() const noexcept { return false; }
  /// Places that it exchanges mail with besides its links, and those of layers that it sends targets to
  /// (mesh/runtime/cell_actor.hpp).
  virtual std::span<const Coord> tells() const noexcept { return {}; }
  virtual std::span<const Coord> trains() const noexcept { return {}; }
  /// True when backward reads z.
  virtual bool needs_preactivation() const noexcept { return false; }
  virtual const std::vector<ParameterSpec>& parameters() const noexcept;
  /// Multiply-adds of one row's forward; balances regions.
  virtual double multiply_adds() const noexcept { return static_cast<double>(out_); }

  /// Bytes of weights that a forward of `rows` rows reads when its matrices are stored so. Weights that it borrows
  /// count with their owner.
  virtual std::uint64_t weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept;
  /// Bytes that a forward of `rows` rows reads and writes: those weights, and of each row its input, its output twice
  /// (as computed and as committed), its hidden state before and after, and what it leaves for backward. Balances
  /// regions.
  std::uint64_t bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept;

  /// May throw: the cell's supervisor answers for it (Weft's own layers never do).
  virtual void forward(kernels::OpStream& stream, const ForwardArgs& args) const = 0;
  virtual void backward(kernels::OpStream& stream, const BackwardArgs& args) const = 0;

  /// Places of the grid whose layers' weights it computes with besides its own (containers with a `shared` layer), each
  /// once.
  virtual std::span<const Coord> tied_to() const noexcept { return {}; }
  /// Of a layer that borrows: what stands where in the weights and gradients that it is given. Empty: its own
  /// parameters, in order.
  virtual std::span<const WeightSlot> weight_slots() const noexcept { return {}; }

  /// True when y jumps where x crosses certain values and is constant between them: gradients are 0 then. Target rules
  /// take the target of y for the target of x.
  virtual bool is_step() const noexcept { return false; }
  /// The matrix whose columns are the inputs, when the layer is one (Dense): index into parameters(), or -1.
  /// The target rules `gap` and `fw_dtp` send targets through it; layers without one send them by their own backward.
  virtual int weight_matrix() const noexcept { return -1; }
  /// Of a layer whose forward is nothing but `linear` of parameter 0, plus parameter 1 where it has two: its
  /// activation. A tick then computes many such cells by one call. Its backward leaves in dy the gradient of what the
  /// activation is taken of.
  virtual std::optional<kernels::Activation> row_product() const noexcept { return std::nullopt; }

 protected:
  Layer(std::size_t in, std::size_t out) : Layer(Shape{in}, Shape{out}) {}
  /// The extents are at least 1 and their products fit.
  Layer(Shape in, Shape out);

 private:
  Shape in_shape_, out_shape_;
  std::size_t in_, out_;
};

class OptionReader;

/// Makes a layer for an input of shape `in`. `out` is the number of features that the network asks for (of the last
/// axis; channels of a convolution), 0 when it does not. Errors name the layer by `options.object()`.
using LayerFactory =
    std::function<Result<std::unique_ptr<Layer>>(const Shape& in, std::size_t out, OptionReader& options)>;

/// A layer type in words and rows: the one declaration of its options (mesh/network/option.hpp), from which reader,
/// defaults, bounds, errors, `weft layers`, the JSON Schema and the pages follow.
struct LayerDeclaration {
  /// Axes of a row, outermost first; "...": any number of them.
  std::string_view takes = "...", gives = "...";
  std::vector<OptionRow> options{};
  std::string_view formula{};  // of Weft's own layers: mesh/layers/layers.def
  bool is_own = false;         // one of Weft's
};

/// Widest layer or port: 2^24 values, so that an index of a [rows, width] block cannot overflow.
inline constexpr std::size_t kMaxWidth = std::size_t{1} << 24;

/// Adds a layer type of the user's own. It reads the options that it declares; others are refused.
/// @error duplicate_name when the type exists
/// @thread any
Status register_layer(std::string type, LayerFactory factory, LayerDeclaration declaration = {});

/// Builds a layer from its description; `in` is the shape of its combined sources.
Result<std::unique_ptr<Layer>> make_layer(const LayerSpec& spec, const Shape& in, std::string object,
                                          LayerContext context = {});
inline Result<std::unique_ptr<Layer>> make_layer(const LayerSpec& spec, std::size_t in, std::string object,
                                                 LayerContext context = {}) {
  return make_layer(spec, Shape{in}, std::move(object), std::move(context));
}

/// Every known layer type, sorted.
std::vector<std::string> layer_types();
/// The declaration of a layer type, or null. It stays as long as the program.
const LayerDeclaration* layer_declaration(std::string_view type);

/// The input's shape, for layers that cannot have another: `out` is 0 or the extent of its last axis.
Result<Shape> same_shape(std::string_view object, std::string_view type, const Shape& in, std::size_t out);
/// The same, for layers that take one vector a tick.
/// @error shape_mismatch: an input of several axes
Result<std::size_t> same_width(std::string_view object, std::string_view type, const Shape& in, std::size_t out);
/// The width of an input that must be one vector. @error shape_mismatch
Result<std::size_t> vector_width(std::string_view object, std::string_view type, const Shape& in);
/// `in` with another extent of its last axis.
Shape with_features(Shape in, std::size_t features);

}  // namespace weft::mesh
