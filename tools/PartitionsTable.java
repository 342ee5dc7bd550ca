import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

/**
 * The connector "partitions" of Flink SQL: a table (id BIGINT, ts TIMESTAMP(3)) of the sources of StreamJob.
 *
 * <p>As the connectors of message brokers it takes the watermark into its scan, so that it has the options
 * scan.watermark.*; Flink's own connectors do not.
 */
public class PartitionsTable implements DynamicTableSourceFactory {
    private static final ConfigOption<String> PARTITIONS =
            ConfigOptions.key("partitions").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "partitions";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PARTITIONS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(
                FactoryUtil.SOURCE_IDLE_TIMEOUT,
                FactoryUtil.WATERMARK_ALIGNMENT_GROUP,
                FactoryUtil.WATERMARK_ALIGNMENT_MAX_DRIFT);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Table(helper.getOptions().get(PARTITIONS), context.getObjectIdentifier().getObjectName());
    }

    private static class Table implements ScanTableSource, SupportsWatermarkPushDown {
        private final String partitions;
        private final String name;
        private WatermarkStrategy<RowData> watermarks = WatermarkStrategy.noWatermarks();

        Table(String partitions, String name) {
            this.partitions = partitions;
            this.name = name;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> strategy) {
            watermarks = strategy;
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment job) {
                    StreamJob.Partitions<RowData> source = new StreamJob.Partitions<>(partitions, Table::row);
                    return job.fromSource(source, watermarks, name);
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        static RowData row(long number, long eventMs) {
            return GenericRowData.of(number % 10, TimestampData.fromEpochMillis(eventMs));
        }

        @Override
        public DynamicTableSource copy() {
            Table copied = new Table(partitions, name);
            copied.watermarks = watermarks;
            return copied;
        }

        @Override
        public String asSummaryString() {
            return "partitions " + partitions;
        }
    }
}
