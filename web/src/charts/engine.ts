// The parts of ECharts that the charts use; loaded with the first chart, since most of the page's weight is here.
import { CustomChart, LineChart, ParallelChart } from "echarts/charts";
import { GridComponent, ParallelComponent, TooltipComponent } from "echarts/components";
import { use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([CustomChart, LineChart, ParallelChart, GridComponent, TooltipComponent, ParallelComponent, CanvasRenderer]);

export { init } from "echarts/core";
