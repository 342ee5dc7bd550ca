import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Submits one job in SQL to the cluster at a port of this machine: java -cp ... FlinkJob.java PORT FILE [KEY=VALUE ...].
 * The statements of the file end with a semicolon and a line break.
 */
public class FlinkJob {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.target", "remote");
        configuration.setString("rest.address", "127.0.0.1");
        configuration.setString("rest.port", arguments[0]);
        configuration.setString("parallelism.default", "2");
        for (int index = 2; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            configuration.setString(setting[0], setting[1]);
        }
        EnvironmentSettings settings =
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build();
        TableEnvironment tables = TableEnvironment.create(settings);
        for (String statement : Files.readString(Path.of(arguments[1])).split(";\n")) {
            tables.executeSql(statement).getJobClient().ifPresent(job -> System.out.println("Job ID " + job.getJobID()));
        }
        System.exit(0);
    }
}
