"builtin.module"() ({
  "func.func"() <{arg_attrs = [{onnx.dim_params = "0:N", onnx.name = "x"}, {onnx.name = "c"}], function_type = (tensor<?x3xf32>, tensor<i1>) -> (tensor<?x3xf32>, tensor<i64>), res_attrs = [{onnx.dim_params = "0:M", onnx.name = "y:0"}, {onnx.name = "gr\C3\B6\C3\9Fe"}], sym_name = "a graph"}> ({
  ^bb0(%x: tensor<?x3xf32>, %c: tensor<i1>):
    %none = "onnx.NoValue"() : () -> none
    %gr__e = "onnx.Constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64> loc("gr\C3\B6\C3\9Fe")
    %most = "onnx.Constant"() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32> loc("most")
    %r = "onnx.Clip"(%x, %none, %most) : (tensor<?x3xf32>, none, tensor<f32>) -> !onnx.Unknown loc("the \22least\22")
    %y_0 = "onnx.If"(%c) ({
      %t = "com_microsoft.FastGelu"(%r) {f = array<f32: 1.0, 2.5>} : (!onnx.Unknown) -> tensor<?x3xf32>
      "onnx.Yield"(%t) : (tensor<?x3xf32>) -> ()
    }, {
      %t_2 = "onnx.LeakyRelu"(%r) {alpha = 0.1 : f32} : (!onnx.Unknown) -> tensor<?x3xf32>
      "onnx.Yield"(%t_2) : (tensor<?x3xf32>) -> ()
    }) {graphs = ["then_branch", "else_branch"]} : (tensor<i1>) -> tensor<?x3xf32> loc("norm/1")
    "func.return"(%y_0, %gr__e) : (tensor<?x3xf32>, tensor<i64>) -> ()
  }) : () -> ()
}) {onnx.ir_version = 8 : i64, onnx.opset_imports = {ai.onnx = 17 : i64, com.microsoft = 1 : i64}} : () -> ()
