// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/network_json.hpp"

#include "mesh/network/graph.hpp"

#include "testing.hpp"

namespace weft::mesh::network_json_test {
namespace {

using namespace testing_support;

void expect_equal(const NetworkSpec& a, const NetworkSpec& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.supervision, b.supervision);
  EXPECT_EQ(a.learning, b.learning);
  EXPECT_EQ(a.stream, b.stream);
  EXPECT_EQ(a.device, b.device);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    EXPECT_EQ(a.inputs[i].name, b.inputs[i].name);
    EXPECT_EQ(a.inputs[i].shape, b.inputs[i].shape);
  }
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const LayerSpec &x = a.layers[i], &y = b.layers[i];
    EXPECT_EQ(x.at, y.at) << i;
    EXPECT_EQ(x.type, y.type) << i;
    EXPECT_EQ(x.out, y.out) << i;
    EXPECT_EQ(x.from, y.from) << i;
    EXPECT_EQ(x.neighbours, y.neighbours) << i;
    EXPECT_EQ(x.combine, y.combine) << i;
    EXPECT_EQ(x.dtype, y.dtype) << i;
    EXPECT_EQ(x.granularity, y.granularity) << i;
    EXPECT_EQ(x.activations, y.activations) << i;
    EXPECT_EQ(x.quantization_aware, y.quantization_aware) << i;
    EXPECT_EQ(x.policy, y.policy) << i;
    EXPECT_EQ(x.device, y.device) << i;
    EXPECT_EQ(x.options, y.options) << i;
  }
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    EXPECT_EQ(a.outputs[i].name, b.outputs[i].name);
    EXPECT_EQ(a.outputs[i].at, b.outputs[i].at);
  }
}

NetworkSpec everything() {
  NetworkSpec spec = mixed_network(~std::uint64_t{0})
                         .layer({1, 1, 1, 1}, "softmax")
                         .option("temperature", 0.1)
                         .neighbours(Neighbourhood::moore)
                         .dtype(Dtype::int4, Granularity::block32_f16)
                         .activations(Activations::float32)
                         .quantization_aware()
                         .policy(actors::Policy::isolate)
                         .placement(Placement::cpu)
                         .layer({0, 0, 1, 1}, "of \"my\" own \xC3\xA9")  // may not exist: only the text counts here
                         .option("flag", false)
                         .option("text", std::string("a\nb"))
                         .from({"a", Coord{1, 1, 1, 0}, "b"}, Combine::gate)
                         .spec();
  spec.supervision = {actors::Policy::restart, 7, 0, actors::Policy::isolate};
  spec.learning = R"({"rule":"dfa"})";
  spec.device = "vulkan:part of a name";
  spec.stream = R"({"csv":"x.csv","epochs":[1,2]})";
  return spec;
}

TEST(NetworkJson, ReadsBackWhatItWrites) {
  for (const NetworkSpec& spec : {mixed_network().spec(), everything()})
    for (const int indent : {-1, 1, 4}) {
      const std::string text = must(write_network(spec, indent));
      const NetworkSpec again = must(read_network(text, "again"));
      expect_equal(spec, again);
      EXPECT_EQ(must(write_network(again, indent)), text);
    }
}

constexpr std::string_view kDesign = R"({"weft": 2, "name": "digits", "grid": {"z": 1, "y": 2, "x": 2, "layers": 1},
 "inputs": {"pixels": [64]},
 "layers": [
  {"at": [0,0,0,0], "type": "dense", "out": 64, "activation": "tanh", "from": ["pixels", [0,1,1,0]], "combine": "concat"},
  {"at": [0,0,1,0], "type": "dense", "out": 64, "activation": "tanh", "dtype": "int8"},
  {"at": [0,1,0,0], "type": "dense", "out": 10},
  {"at": [0,1,1,0], "type": "dense", "out": 16, "activation": "tanh", "from": [[0,0,1,0]]}],
 "outputs": {"digit": [0,1,0,0]},
 "learning": {"rule": "fw_dtp", "schedule": "pipelined", "loss": "cross_entropy", "optimizer": {"type": "momentum", "lr": 0.03}},
 "stream": {"csv": "data/digits.csv.gz", "epochs": 20}})";

TEST(NetworkJson, ReadsTheNetworkOfTheDesign) {
  const NetworkSpec spec = must(read_network(kDesign, "design"));
  EXPECT_EQ(spec.name, "digits");
  EXPECT_EQ(spec.grid, (GridShape{1, 2, 2, 1}));
  ASSERT_EQ(spec.layers.size(), 4u);
  EXPECT_EQ(spec.layers[0].from, (std::vector<Source>{"pixels", Coord{0, 1, 1, 0}}));
  EXPECT_EQ(spec.layers[0].options, (Options{{"activation", std::string("tanh")}}));
  EXPECT_EQ(spec.layers[1].dtype, Dtype::int8);
  EXPECT_EQ(spec.outputs[0].at, (Coord{0, 1, 0, 0}));
  EXPECT_NE(spec.learning.find("fw_dtp"), std::string::npos);
  EXPECT_NE(spec.stream.find("digits.csv.gz"), std::string::npos);
  const Graph graph = must(Graph::build(spec));
  EXPECT_EQ(graph.nodes()[2].encoding, Encoding(Dtype::int8, Granularity::channel));
  EXPECT_EQ(graph.loops().size(), 1u);
}

TEST(NetworkJson, TakesDefaultsForAllThatMayBeLeftAway) {
  const NetworkSpec spec =
      must(read_network(R"({"weft": 2,"grid":{},"layers":[{"at":[0,0,0,0],"type":"identity"}]})", "least"));
  EXPECT_EQ(spec.name, "unnamed");
  EXPECT_EQ(spec.grid, (GridShape{1, 1, 1, 1}));
  EXPECT_EQ(spec.supervision, actors::SupervisionRule{});
  EXPECT_EQ(spec.layers[0].out, 0u);
  EXPECT_EQ(spec.layers[0].dtype, Dtype::float32);
  EXPECT_TRUE(spec.inputs.empty() && spec.outputs.empty() && spec.learning.empty() && spec.stream.empty());
}

std::string with_layer(const std::string& keys) {
  return R"({"weft": 2,"grid":{"x":2},"inputs":{"in":[4]},"layers":[{"at":[0,0,0,0],"type":"dense","out":3},{)" + keys +
         "}]}";
}
std::string with_top(const std::string& keys) {
  return R"({"weft": 2,"grid":{"x":2},"layers":[{"at":[0,0,0,0],"type":"dense","out":3}])" + keys + "}";
}
std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(NetworkJson, RefusesWithThePathAndWhatWasExpected) {
  const std::string at = R"("at":[0,0,1,0],"type":"dense")";
  const auto refuse = [](const std::string& text, Errc code, std::string_view fragments) {
    SCOPED_TRACE(text.substr(0, 200));
    expect_refused(read_network(text, "net"), code, fragments);
  };
  refuse("", Errc::parse_failed, "net:1:1");
  refuse("weft", Errc::parse_failed, "net:1:");
  refuse(R"({"weft": 2,"grid":{)", Errc::parse_failed, "net:1:");
  refuse("[1]", Errc::parse_failed, "top level|array");
  refuse(R"({"grid":{},"layers":[]})", Errc::not_found, "weft");
  refuse(R"({"weft":3,"grid":{},"layers":[]})", Errc::unsupported, "weft: version 3|reads 2");
  refuse(R"({"weft":1,"grid":{},"layers":[],"stream":{"csv":"a","passes":2}})", Errc::unsupported,
         "weft: version 1|reads 2|docs/formats/network.md");
  refuse(R"({"weft": 2,"layers":[]})", Errc::not_found, "grid");
  refuse(R"({"weft": 2,"grid":{}})", Errc::not_found, "layers");
  refuse(R"({"weft": 2,"grid":{},"layers":[]})", Errc::out_of_range, "layers|0");
  refuse(with_top(R"(,"imputs":{"in":[4]})"), Errc::unknown_name, "imputs|did you mean 'inputs'?");
  refuse(R"({"weft": 2,"grid":{"layer":1},"layers":[{"at":[0,0,0,0],"type":"dense"}]})", Errc::unknown_name,
         "grid.layer|did you mean 'layers'?");
  refuse(R"({"weft": 2,"weft": 2,"grid":{},"layers":[]})", Errc::duplicate_name, "net:1:12|\"weft\"|twice");
  refuse(with_top(R"(,"inputs":{"a":[1],"a":[2]})"), Errc::duplicate_name, "\"a\"|twice");
  refuse(with_layer(at + R"(,"out":3,"out":4)"), Errc::duplicate_name, "\"out\"|twice");
  refuse(repeated("[", 100000), Errc::too_large, "deeper than 64");
  refuse(repeated(R"({"weft":)", 100000), Errc::too_large, "deeper than 64");
  refuse(with_layer(at + R"(,"out":3,"from":)" + repeated("[", 100000)), Errc::too_large, "deeper than 64");
  refuse(with_top(R"(,"learning":)" + repeated(R"({"a":)", 100000)), Errc::too_large, "deeper than 64");
  refuse(with_layer(at + R"(,"out":4294967296)"), Errc::out_of_range, "layers[1].out|4294967296");
  refuse(with_layer(at + R"(,"out":99999999999999999999999)"), Errc::parse_failed, "64 bits");
  refuse(with_layer(at + R"(,"out":0)"), Errc::out_of_range, "layers[1].out|0|at least 1");
  refuse(with_layer(at + R"(,"out":-3)"), Errc::out_of_range, "layers[1].out|-3");
  refuse(with_layer(at + R"(,"out":2.5)"), Errc::parse_failed, "layers[1].out|2.5|whole");
  refuse(with_layer(at + R"(,"out":"64")"), Errc::parse_failed, "layers[1].out|\"64\"|whole");
  refuse(with_layer(at + R"(,"out":null)"), Errc::parse_failed, "layers[1].out|null");
  refuse(with_top(R"(,"inputs":{"in":[0]})"), Errc::out_of_range, "inputs.in[0]|0|at least 1");
  refuse(with_top(R"(,"inputs":{"in":[1,1,1,1,1,1,1,1,1]})"), Errc::out_of_range, "inputs.in|9");
  refuse(with_top(R"(,"inputs":{"in":8})"), Errc::parse_failed, "inputs.in|8");
  refuse(with_top(R"(,"inputs":[8])"), Errc::parse_failed, "inputs|array");
  refuse(with_layer(at + R"(,"out":3,"gain":1e999)"), Errc::parse_failed, "1e999");
  refuse(with_layer(R"("type":"dense","out":3)"), Errc::not_found, "layers[1]|\"at\" is missing");
  refuse(with_layer(R"("at":[0,0,1],"type":"dense","out":3)"), Errc::out_of_range, "layers[1].at|3|4");
  refuse(with_layer(R"("at":[0,0,-1,0],"type":"dense","out":3)"), Errc::out_of_range, "layers[1].at[2]|-1");
  refuse(with_layer(R"("at":[0,0,4294967296,0],"type":"dense","out":3)"), Errc::out_of_range,
         "layers[1].at[2]|4294967296");
  refuse(with_layer(R"("at":[0,0,1,0],"out":3)"), Errc::not_found, "layers[1]|\"type\" is missing");
  refuse(R"({"weft": 2,"grid":{},"layers":[7]})", Errc::parse_failed, "layers[0]|7|object");
  refuse(with_layer(at + R"(,"out":3,"from":[])"), Errc::out_of_range, "layers[1].from|0");
  refuse(with_layer(at + R"(,"out":3,"from":[""])"), Errc::parse_failed, "layers[1].from[0]|name");
  refuse(with_layer(at + R"(,"out":3,"from":["in",3])"), Errc::parse_failed, "layers[1].from[1]|3|[z,y,x,layer]");
  refuse(with_layer(at + R"(,"out":3,"from":"in")"), Errc::parse_failed, "layers[1].from|\"in\"");
  refuse(with_layer(at + R"(,"out":3,"combine":"sum")"), Errc::unknown_name, "layers[1].combine|sum|concat, add");
  refuse(with_layer(at + R"(,"out":3,"combine":"concta")"), Errc::unknown_name, "did you mean 'concat'?");
  refuse(with_layer(at + R"(,"out":3,"neighbours":"more")"), Errc::unknown_name,
         "layers[1].neighbours|did you mean 'moore'?");
  refuse(with_layer(at + R"(,"out":3,"dtype":"int9")"), Errc::parse_failed, "layers[1].dtype|int9");
  refuse(with_layer(at + R"(,"out":3,"dtype":"int8","granularity":"block33")"), Errc::unknown_name,
         "layers[1].granularity|block33|block32, block32_f16");
  refuse(with_layer(at + R"(,"out":3,"dtype":"int8","activations":"int4")"), Errc::unknown_name,
         "layers[1].activations|int4|float");
  refuse(with_layer(at + R"(,"out":3,"qat":1)"), Errc::parse_failed, "layers[1].qat|1");
  refuse(with_layer(at + R"(,"out":3,"policy":"retry")"), Errc::unknown_name, "layers[1].policy|retry|halt");
  refuse(with_layer(at + R"(,"out":3,"device":"vulkan:0")"), Errc::unknown_name,
         "layers[1].device|vulkan:0|cpu, vulkan");
  refuse(with_layer(at + R"(,"out":3,"device":0)"), Errc::parse_failed, "layers[1].device|0");
  refuse(with_layer(at + R"(,"out":3,"bias":{})"), Errc::parse_failed, "layers[1].bias|object");
  refuse(with_top(R"(,"outputs":{"y":[0,0,0]})"), Errc::out_of_range, "outputs.y|3");
  refuse(with_top(R"(,"outputs":["y"])"), Errc::parse_failed, "outputs|array");
  refuse(with_top(R"(,"supervision":{"policy":"restart","max_restarts":65})"), Errc::out_of_range,
         "supervision.max_restarts|65|64");
  refuse(with_top(R"(,"supervision":{"escalation":"restart"})"), Errc::unknown_name,
         "supervision.escalation|restart|halt, hold, isolate");
  refuse(with_top(R"(,"supervision":{"polcy":"halt"})"), Errc::unknown_name,
         "supervision.polcy|did you mean 'policy'?");
  refuse(with_top(R"(,"learning":"dfa")"), Errc::parse_failed, "learning|object");
  refuse(with_top(R"(,"device":"gpu")"), Errc::parse_failed, "device|gpu|vulkan:NUMBER");
  refuse(with_top(R"(,"device":"vulkan:\u001b[31m")"), Errc::parse_failed, "device|\\x1b");
  refuse(with_top(R"(,"device":"vulkan:")"), Errc::parse_failed, "device|vulkan:");
  refuse(with_top(R"(,"name":")" + std::string(257, 'n') + "\""), Errc::out_of_range, "name|256");
}

TEST(NetworkJson, TellsUnknownLayerKeysWhenTheLayerIsMade) {
  // The known options depend on the type, so the graph checks them; the path is the file's.
  const auto spec =
      must(read_network(with_layer(R"("at":[0,0,1,0],"type":"dense","out":3,"activaton":"tanh")"), "net"));
  expect_error(Graph::build(spec), Errc::unknown_name,
               {"layers[1].activaton", "[0,0,1,0]", "did you mean 'activation'?"});
}

TEST(NetworkJson, ReadsAChainAsTheGridThatItIsShortFor) {
  const auto chain = must(read_network(
      R"({"weft": 2,"name":"n","inputs":{"x":[4]},"chain":[
          {"type":"dense","out":16,"activation":"tanh","dtype":"int8"},{"type":"layer_norm"},{"type":"dense","out":3}]})",
      "net"));
  const auto grid = must(read_network(
      R"({"weft": 2,"name":"n","grid":{"z":1,"y":1,"x":3,"layers":1},"inputs":{"x":[4]},"layers":[
          {"at":[0,0,0,0],"type":"dense","out":16,"activation":"tanh","dtype":"int8"},
          {"at":[0,0,1,0],"type":"layer_norm"},{"at":[0,0,2,0],"type":"dense","out":3}],"outputs":{"y":[0,0,2,0]}})",
      "net"));
  expect_equal(chain, grid);
  EXPECT_EQ(must(write_network(chain)), must(write_network(grid)));
  ASSERT_TRUE(Graph::build(chain));
  const auto named = must(read_network(
      R"({"weft": 2,"inputs":{"x":[4]},"chain":[{"type":"dense","out":3}],"outputs":{"z":[0,0,0,0]}})", "net"));
  ASSERT_EQ(named.outputs.size(), 1u);
  EXPECT_EQ(named.outputs[0].name, "z");
  const auto refused = [](const char* rest, Errc code, std::string_view fragments) {
    expect_refused(read_network(std::string(R"({"weft": 2,"inputs":{"x":[4]},)") + rest + "}", "net"), code, fragments);
  };
  refused(R"("grid":{},"chain":[{"type":"identity"}])", Errc::unsupported, "grid|'chain'");
  refused(R"("layers":[],"chain":[{"type":"identity"}])", Errc::unsupported, "layers|'chain'");
  refused(R"("chain":[])", Errc::out_of_range, "chain");
  refused(R"("chain":[{"type":"identity","at":[0,0,0,0]}])", Errc::unsupported, "chain[0].at|write grid");
  refused(R"("chain":[{"type":"identity","from":["x"]}])", Errc::unsupported, "chain[0].from");
  refused(R"("chain":[{"type":"identity","name":"a"}])", Errc::unsupported, "chain[0].name");
}

TEST(NetworkJson, NamesAllMissingKeysAtOnce) {
  expect_error(read_network("{}", "net"), Errc::not_found,
               {"keys \"weft\", \"grid\", \"layers\" are missing", "chain"});
  expect_error(read_network(R"({"weft":2})", "net"), Errc::not_found, {"keys \"grid\", \"layers\" are missing"});
  expect_error(read_network(R"({"weft":2,"grid":{},"layrs":[]})", "net"), Errc::not_found,
               {"key \"layers\" is missing; unknown key 'layrs'; did you mean 'layers'?"});
  expect_error(read_network(R"({"weft":2,"chain":[{"tpye":"identity"}]})", "net"), Errc::not_found,
               {"chain[0]: key \"type\" is missing; there is \"tpye\""});
  expect_error(read_network(R"({"chain":[{"type":"identity"}]})", "net"), Errc::not_found, {"key \"weft\" is missing"});
}

// "units" and the like are what other libraries call the width.
TEST(NetworkJson, SaysWhichKeysALayerHasWhereOneIsMissing) {
  const auto spec = must(read_network(
      R"({"weft": 2,"inputs":{"x":[4]},"chain":[{"type":"dense","units":16,"activation":"tanh"}]})", "net"));
  expect_error(Graph::build(spec), Errc::unknown_name,
               {"layers[0].units", "this layer type has no such option; did you mean 'out'?",
                "layers[0].out: needed and not given (width of the output)"});
}

TEST(NetworkJson, NamesTheKeyThatIsMeantByOneOfAnotherLibrary) {
  const auto refuse = [](const char* layer, std::initializer_list<std::string_view> parts) {
    const auto spec =
        must(read_network(R"({"weft": 2,"inputs":{"x":[4]},"chain":[)" + std::string(layer) + R"(]})", "net"));
    expect_error(Graph::build(spec), Errc::unknown_name, parts);
  };
  refuse(R"({"type":"dense","out":8,"units":8})", {"layers[0].units", "did you mean 'out'?"});
  refuse(R"({"type":"dense","out":8,"use_bias":true})", {"layers[0].use_bias", "did you mean 'bias'?"});
  refuse(R"({"type":"dropout","p":0.5})", {"layers[0].p", "did you mean 'rate'?"});
  refuse(R"({"type":"dense","out":8,"activatoin":"tanh"})", {"did you mean 'activation'?"});
}

TEST(NetworkJson, SaysWhatCannotBeWritten) {
  NetworkSpec spec = mixed_network().spec();
  spec.name = "\xFF";
  expect_error(write_network(spec), Errc::invalid_argument, {"UTF-8"});
  spec = mixed_network().option("rate", INFINITY).spec();
  expect_error(write_network(spec), Errc::invalid_argument, {"finite"});
  spec = mixed_network().spec();
  spec.learning = "{";
  expect_error(write_network(spec), Errc::parse_failed, {"learning"});
}

TEST(NetworkJson, NamesOfDevicesAreCheckedWhereNoFileWasReadToo) {
  MeshOptions options;
  options.device = "gpu";
  expect_error(Mesh::build(mixed_network().spec(), options), Errc::unknown_name, {"gpu", "vulkan:NUMBER"});
  expect_error(Mesh::build(mixed_network().device("vulkan:").spec()), Errc::unknown_name, {"vulkan:"});
}

}  // namespace
}  // namespace weft::mesh::network_json_test
